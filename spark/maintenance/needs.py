"""What of a table's past is still read: the commits in which we have said what it holds, and versions that somebody names."""

from __future__ import annotations

import json
from dataclasses import dataclass

from spark.delta.commits import surviving
from spark.delta.local_log import newest_commits
from spark.errors import LeftToSparkError

_FIRST_LOOK = 20
KIND = "maintenance"
"""The kind of our own commits here: they say nothing of what a table holds."""


@dataclass(frozen=True)
class Need:
    """Somebody reads the table's log from `version` on, and the files that were its own at that version."""

    version: int
    reason: str


@dataclass(frozen=True)
class NamedVersion:
    """Somebody reads the table as it was at this version, and no other old one; `table_id` is Delta's own id of the table, since
    one that was made anew has other versions. Empty: whichever table is there."""

    version: int
    table_id: str
    reason: str


def first_telling(path: str, up_to: int | None = None) -> int | None:
    """From which commit on the log says what the table holds, or held at the version `up_to`, in our metadata; None where it has
    none of ours (a quarantine).

    Raises:
        LeftToSparkError: the log is not to be read here.
    """
    limit: int | None = _FIRST_LOOK
    while True:
        commits = newest_commits(path, limit, up_to=up_to)
        if commits is None:
            if up_to is not None:
                return None
            raise LeftToSparkError("the log is not to be read here")
        for version, text in surviving(commits):
            first = _first_needed(version, text)
            if first is not None:
                return first
        if limit is None or len(commits) < limit:
            return None
        limit = limit * 10 if limit < 2_000 else None


def _first_needed(version: int, text: str | None) -> int | None:
    """The oldest commit without which this one does not say it all: an append builds on what others had committed."""
    if not text or not text.startswith("{"):
        return None
    try:
        told = json.loads(text)
    except json.JSONDecodeError:
        return None
    if not isinstance(told, dict) or "cdc_assets" not in told or told.get("kind") in (KIND, "restore"):
        return None
    return min(version, int(told.get("base_version", version)) + 1)
