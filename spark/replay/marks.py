"""What a replay leaves in its commits: its id, and the versions that an undo goes back to.

Only silver's commit, the last one, holds all of them, and so says that it is done. A history's holds its own: after a kill
between the two, the next try takes it from there.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from spark.delta.commits import parse, surviving
from spark.delta.local_log import newest_commits

_FIRST_LOOK = 50


@dataclass(frozen=True)
class ReplayMark:
    """`before`: by layer the version that was there; `done`: nothing but silver's own commit says so."""

    id: str
    before: dict[str, int] = field(default_factory=dict)
    done: bool = False

    def to_dict(self) -> dict[str, Any]:
        """As a commit holds it."""
        return asdict(self)


def newest_mark(path: str) -> ReplayMark | None:
    """That of the newest replay which no RESTORE has undone; None: there is none in the log."""
    limit: int | None = _FIRST_LOOK
    while True:
        commits = newest_commits(path, limit) or []
        for version, text in surviving(commits):
            told = (parse(text, "silver", version) or {}).get("replay")
            if told:
                return ReplayMark(**told)
        if limit is None or len(commits) < limit:
            return None
        limit = limit * 10 if limit < 2_000 else None


def newest_version(path: str) -> int:
    """That of the table; -1: there is none."""
    found = newest_commits(path, 1)
    return int(found[0]["version"]) if found else -1
