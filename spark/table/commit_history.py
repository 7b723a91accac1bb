"""A Delta table's own history: what is committed, by whom, with how many rows; and one property of the table.

Where the log's files are on this machine they are read here, else Spark is asked. History is read newest first and only as far
back as needed; our commit metadata is cumulative, so that is a few commits. A path without a table is an empty history, not an
error.

`SHOW TBLPROPERTIES` plans and runs a job of Spark, 50 to 120 ms, and each fold asks. So a property that was read once is kept by
this process, and only commits after it are looked at: a commit that changes properties has an action `metaData`
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md#change-metadata).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import NamedTuple, TypeVar

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as sf

from spark.errors import (
    CommitLeftOutError,
    CommitMetadataError,
    CommitNotFoundError,
    ForeignTableError,
    HistoryTooShortError,
    quantity,
)
from spark.table.commit_metadata import Folded, fold_silver, surviving
from spark.table.delta_rs import open_delta
from spark.table.identifiers import table_at
from spark.table.lake_location import is_reached
from spark.table.log_reader import LOG, names_after, newest_commits
from spark.table.spark_failures import SPARK_FAILURES, error_text
from spark.table.table_folder import LakeFolder, open_folder

T = TypeVar("T")
FIRST_LOOK = 20
JUST_WRITTEN = 2
FIELDS = ("version", "operation", "operationParameters", "userMetadata")
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
    """One version of a Delta table."""

    version: int
    operation: str
    user_metadata: str | None
    metrics: dict[str, str]

    def count(self, metric: str) -> int:
        """A metric of the commit, 0 where Delta did not report it."""
        return int(self.metrics.get(metric, 0))


def history(session: SparkSession, path: str, limit: int | None) -> list[Commit]:
    """The newest commits, newest first, without the metadata of those that a RESTORE undid; empty when no table."""
    entries = newest_commits(path, limit)
    if entries is None:
        return history_by_spark(session, path, limit)
    kept = dict(surviving(entries))
    return [Commit(e["version"], e["operation"] or "", kept[e["version"]], dict(e["operationMetrics"] or {})) for e in entries]


@dataclass(frozen=True)
class TimedCommit:
    """A version of a table: when it was committed, and its metadata; None of what a RESTORE undid."""

    version: int
    at: datetime
    user_metadata: str | None


def commit_times(session: SparkSession, path: str, limit: int) -> list[TimedCommit]:
    """The newest commits, newest first; empty when no table."""
    entries = newest_commits(path, limit)
    if entries is None or any(entry["timestamp"] is None for entry in entries):
        rows = history_rows(session, path, limit, "timestamp")
        return [TimedCommit(row.version, row.timestamp, text) for row, text in rows]
    kept = dict(surviving(entries))
    zone = timezone.utc
    return [TimedCommit(e["version"], datetime.fromtimestamp(e["timestamp"] / 1000, zone), kept[e["version"]]) for e in entries]


def history_by_spark(session: SparkSession, path: str, limit: int | None) -> list[Commit]:
    """The same by DESCRIBE HISTORY, wherever the table lies."""
    rows = history_rows(session, path, limit, "operationMetrics")
    return [Commit(row.version, row.operation, text, dict(row.operationMetrics or {})) for row, text in rows]


def history_rows(session: SparkSession, path: str, limit: int | None, *more: str) -> list[tuple[Row, str | None]]:
    """What Delta tells of each of these commits, with `more` of its fields, and the metadata; None of what a RESTORE undid."""
    statement = f"DESCRIBE HISTORY {table_at(path)}" + (f" LIMIT {limit}" if limit else "")
    try:
        rows = session.sql(statement).select(*FIELDS, *more).collect()
    except SPARK_FAILURES as error:
        text = error_text(error)
        if any(name in text for name in NOT_A_TABLE):
            return []
        raise
    kept = dict(surviving(row.asDict() for row in rows))
    return [(row, kept[row.version]) for row in rows]


def fold_history(
    session: SparkSession,
    path: str,
    fold: Callable[[list[tuple[int, str | None]]], T],
    *,
    up_to: int | None = None,
) -> T:
    """`fold` over as much of the history as it asks for."""
    limit: int | None = FIRST_LOOK
    while True:
        commits = history(session, path, limit)
        seen = [(c.version, c.user_metadata) for c in commits if up_to is None or c.version <= up_to]
        try:
            if commits and not seen:
                raise HistoryTooShortError(f"{path}: version {up_to} is not among the newest {limit}")
            return fold(seen)
        except HistoryTooShortError:
            if limit is None or len(commits) < limit:
                raise
            limit = limit * 10 if limit < 2000 else None
        except CommitMetadataError as error:
            raise CommitMetadataError(f"{path}: {error}") from error


def commit_of(session: SparkSession, path: str, operation_id: str, *, rows: int | None = None) -> Commit:
    """The commit that carries our operation id: a write that returned is believed only once it is in the log."""
    marker = f'"operation_id":"{operation_id}"'
    # Spark in the end: a folder of another machine's may show the newest file late.
    for look, limit in ((history, JUST_WRITTEN), (history_by_spark, FIRST_LOOK)):
        for commit in look(session, path, limit):
            if commit.user_metadata and marker in commit.user_metadata:
                written = commit.count("numOutputRows")
                if rows is not None and written != rows:
                    raise CommitNotFoundError(
                        f"{path} version {commit.version}: {quantity(written, 'row')} written, "
                        f"{rows} read (operation {operation_id}); "
                        "do not run it again before the difference is understood"
                    )
                return commit
    raise CommitLeftOutError(f"{path}: the write returned, but no commit carries operation {operation_id}; run it again")


def refuse_foreign(path: str) -> None:
    """Nothing is written into, or over, a table that is somebody else's.

    Raises:
        ForeignTableError: always.
    """
    raise ForeignTableError(
        f"{path} is a Delta table without a commit of ours: it is left as it is; move it, or take another CDC_LAKE or source name"
    )


def silver_folded(session: SparkSession, path: str, *, up_to: int | None = None) -> Folded | None:
    """What a silver table has folded, at a version where one is given; None when there is no table.

    Raises:
        ForeignTableError: the table is none of ours.
    """

    def newest(commits: list[tuple[int, str | None]]) -> Folded | None:
        folded = fold_silver(commits)
        if folded is None and commits and min(version for version, _ in commits) > 0:
            raise HistoryTooShortError(f"{path}: no silver commit among the newest {len(commits)}")
        if folded is None and commits:
            refuse_foreign(path)
        return folded

    return fold_history(session, path, newest, up_to=up_to)


_CHANGE = b'{"metaData":'


class _Known(NamedTuple):
    """The properties at a version. `mark` tells its commit from one of another table, which took this one's place."""

    version: int
    mark: str
    properties: Mapping[str, str]


_KNOWN: dict[str, _Known] = {}


def read_property(session: SparkSession, path: str, name: str) -> str | None:
    """Its text by now; None where the table has none."""
    if is_reached(path):
        from deltalake.exceptions import DeltaError

        try:
            _KNOWN[path] = state = _catch_up(open_folder(path), _KNOWN.get(path))
        except (OSError, DeltaError):
            # Not here, cleaned up meanwhile, or of a feature that delta-rs does not read.
            _KNOWN.pop(path, None)
        else:
            return state.properties.get(name)
    row = session.sql(f"SHOW TBLPROPERTIES {table_at(path)}").where(sf.col("key") == name).first()
    return None if row is None else str(row.value)


def _catch_up(folder: LakeFolder, state: _Known | None) -> _Known:
    if state is None or not _is_same(folder, state):
        table = open_delta(folder.path)
        state = _Known(table.version(), _mark(_commit(folder, table.version())), table.metadata().configuration)
    for name in names_after(folder, state.version):
        content = folder.read(f"{LOG}/{name}")
        changed = [line for line in content.splitlines() if line.startswith(_CHANGE)]
        properties = json.loads(changed[-1])["metaData"].get("configuration", {}) if changed else state.properties
        state = _Known(int(name[:20]), _mark(content), properties)
    return state


def _is_same(folder: LakeFolder, known: _Known) -> bool:
    try:
        return _mark(_commit(folder, known.version)) == known.mark
    except FileNotFoundError:
        return False


def _commit(folder: LakeFolder, version: int) -> bytes:
    return folder.read(f"{LOG}/{version:020}.json")


def _mark(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
