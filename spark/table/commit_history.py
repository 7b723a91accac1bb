"""A Delta table's own history: what is committed, by whom, with how many rows; and one property of the table.

Where the log's files are on this machine they are read here, else Spark is asked. History is read newest first and only as far
back as needed; our commit metadata is cumulative, so that is a few commits. A path without a table is an empty history, not an
error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, TypeVar

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from spark.errors import CommitLeftOutError, HistoryTooShortError, TableStopError, quantity
from spark.table.commit_metadata import Folded, carries, fold_silver, surviving
from spark.table.delta_table import table_of
from spark.table.identifiers import table_at
from spark.table.lake_location import is_reached
from spark.table.log_reader import FIRST_LOOK, fold_newest, newest_commits
from spark.table.spark_failures import SPARK_FAILURES, error_text

T = TypeVar("T")
JUST_WRITTEN = 2
FIELDS = ("version", "operation", "operationParameters", "operationMetrics", "userMetadata")
NOT_A_TABLE = (
    "DELTA_TABLE_ONLY_OPERATION",
    "DELTA_TABLE_NOT_FOUND",
    "DELTA_MISSING_DELTA_TABLE",
    "DELTA_PATH_DOES_NOT_EXIST",
    "PATH_NOT_FOUND",
    "TABLE_OR_VIEW_NOT_FOUND",
)


@dataclass(frozen=True)
class Commit:
    """One version of a Delta table; `at` is its writer's clock, or of a log that Spark reads its file's time."""

    version: int
    operation: str
    user_metadata: str | None
    metrics: dict[str, str]
    at: datetime = field(compare=False)

    def count(self, metric: str) -> int:
        """A metric of the commit, 0 where Delta did not report it."""
        return int(self.metrics.get(metric, 0))


def history(session: SparkSession, path: str, limit: int | None) -> list[Commit]:
    """The newest commits, newest first, without the metadata of those that a RESTORE undid; empty when no table."""
    entries = newest_commits(path, limit)
    if entries is None or any(entry["timestamp"] is None for entry in entries):
        return history_by_spark(session, path, limit)
    return _commits(entries)


def history_by_spark(session: SparkSession, path: str, limit: int | None) -> list[Commit]:
    """The same by DESCRIBE HISTORY, wherever the table lies."""
    statement = f"DESCRIBE HISTORY {table_at(path)}" + (f" LIMIT {limit}" if limit else "")
    try:
        rows = session.sql(statement).select(*FIELDS, sf.unix_millis("timestamp").alias("timestamp")).collect()
    except SPARK_FAILURES as error:
        text = error_text(error)
        if any(name in text for name in NOT_A_TABLE):
            return []
        raise
    return _commits([row.asDict() for row in rows])


def _commits(entries: Sequence[Mapping[str, Any]]) -> list[Commit]:
    kept = dict(surviving(entries))
    return [
        Commit(
            version=entry["version"],
            operation=entry["operation"] or "",
            user_metadata=kept[entry["version"]],
            metrics=dict(entry["operationMetrics"] or {}),
            at=datetime.fromtimestamp(entry["timestamp"] / 1000, timezone.utc),
        )
        for entry in entries
    ]


def fold_history(
    session: SparkSession,
    path: str,
    fold: Callable[[list[tuple[int, str | None]]], T],
    *,
    up_to: int | None = None,
) -> T:
    """`fold` over as much of the history as it asks for."""

    def fold_up_to(commits: list[Commit]) -> T:
        seen = [(c.version, c.user_metadata) for c in commits if up_to is None or c.version <= up_to]
        if commits and not seen:
            raise HistoryTooShortError(f"{path}: version {up_to} is not among the newest {len(commits)}")
        return fold(seen)

    return fold_newest(lambda limit: history(session, path, limit), fold_up_to, path=path)


def commit_of(session: SparkSession, path: str, operation_id: str, *, rows: int | None = None) -> Commit:
    """The commit that carries our operation id: a write that returned is believed only once it is in the log."""
    # Spark in the end: a folder of another machine's may show the newest file late.
    for look, limit in ((history, JUST_WRITTEN), (history_by_spark, FIRST_LOOK)):
        for commit in look(session, path, limit):
            if carries(commit.user_metadata, operation_id):
                written = commit.count("numOutputRows")
                if rows is not None and written != rows:
                    raise TableStopError(
                        f"{path} version {commit.version}: {quantity(written, 'row')} written, "
                        f"{rows} read (operation {operation_id}); "
                        "do not run it again before the difference is understood"
                    )
                return commit
    raise CommitLeftOutError(f"{path}: the write returned, but no commit carries operation {operation_id}; run it again")


def refuse_foreign(path: str) -> None:
    """Nothing is written into, or over, a table that is somebody else's. Raises TableStopError: always."""
    raise TableStopError(
        f"{path} is a Delta table without a commit of ours: it is left as it is; move it, or take another CDC_LAKE or source name"
    )


def silver_folded(session: SparkSession, path: str, *, up_to: int | None = None) -> Folded | None:
    """What a silver table has folded, at a version where one is given; None when there is no table.

    Raises:
        TableStopError: the table is none of ours.
    """

    def newest(commits: list[tuple[int, str | None]]) -> Folded | None:
        folded = fold_silver(commits)
        if folded is None and commits and min(version for version, _ in commits) > 0:
            raise HistoryTooShortError(f"{path}: no silver commit among the newest {len(commits)}")
        if folded is None and commits:
            refuse_foreign(path)
        return folded

    return fold_history(session, path, newest, up_to=up_to)


def read_property(session: SparkSession, path: str, name: str) -> str | None:
    """Its text by now; None where the table has none."""
    if is_reached(path):
        # Else it is not here, was cleaned up meanwhile, or has a checkpoint that only Spark reads.
        with suppress(OSError):
            return table_of(path).properties().get(name)
    row = session.sql(f"SHOW TBLPROPERTIES {table_at(path)}").where(sf.col("key") == name).first()
    return None if row is None else str(row.value)
