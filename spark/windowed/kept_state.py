"""What a table of results says of itself in its commits: the version of silver that it is the result of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from pyspark.sql import SparkSession

from spark.delta.local_log import newest_commits
from spark.delta.log import fold_history, refuse_foreign
from spark.errors import HistoryTooShortError
from spark.windowed.declared_windows import WindowedSpec

_KIND, _LOOK = "windowed", 20


@dataclass(frozen=True)
class KeptResults:
    """`silver_version` and `mark` (changed_rows.version_mark) are silver's; `watermark` in microseconds; `digest` is the
    declaration's."""

    silver_version: int
    mark: str
    watermark: int | None
    digest: str
    operation_id: str

    def to_metadata(self) -> str:
        """As the commit's userMetadata; the operation's id as spark.delta.log.commit_of looks for it."""
        facts = {"cdc_assets": 1, "kind": _KIND, **asdict(self)}
        return json.dumps(facts, separators=(",", ":"), sort_keys=True)


def state_of_results(session: SparkSession, spec: WindowedSpec) -> KeptResults | None:
    """What the newest commit of ours says; None where there is no table.

    Raises:
        ForeignTableError: the table is none of ours.
    """

    def newest(commits: list[tuple[int, str | None]]) -> KeptResults | None:
        if (found := _newest([text for _, text in commits])) is not None:
            return found
        if commits and min(version for version, _ in commits) > 0:
            raise HistoryTooShortError(f"{spec.path}: no commit of windows among the newest {len(commits)}")
        if commits:
            refuse_foreign(spec.path)
        return None

    return fold_history(session, spec.path, newest)


def versions_here(spec: WindowedSpec) -> tuple[int, int] | None:
    """Silver's newest version, and the one that the results are of (-1: of none), without Spark; None where that is not told."""
    silver = newest_commits(spec.silver_path, 1)
    if silver is None:
        return None
    kept = read_kept_results(spec.path)
    of_now = kept is not None and kept.digest == spec.digest
    return silver[0]["version"], kept.silver_version if kept is not None and of_now else -1


def read_kept_results(path: str) -> KeptResults | None:
    """What the newest commit of ours says, without Spark, however many of others came since; None where that is not told."""
    limit: int | None = _LOOK
    while True:
        commits = newest_commits(path, limit) or []
        found = _newest([commit["userMetadata"] for commit in commits])
        if found is not None or limit is None or len(commits) < limit:
            return found
        limit = None


def _newest(texts: Sequence[str | None]) -> KeptResults | None:
    """What the first of these metadata that is ours says."""
    for text in texts:
        told = json.loads(text) if text and text.startswith("{") else {}
        if told.get("kind") == _KIND:
            facts = {name: told[name] for name in ("silver_version", "mark", "watermark", "digest", "operation_id")}
            return KeptResults(**facts)
    return None
