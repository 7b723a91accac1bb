"""What the lake has committed, read from Delta logs through delta-rs: milliseconds, no JVM.

The log is the truth about positions (never a sensor's cursor, never a consumer group). An answer is kept until the log has
another commit. Sensors and waiting commands ask each table again every few seconds, and almost always nothing has changed: a
look at the log's folder takes 5 µs, to open the table 5 ms of CPU.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from cdc_assets.clients import delta_rows
from cdc_assets.clients.delta_rows import open_dataset
from spark.proof.ledger_contract import Counted, fold_ledger
from spark.specs import JobResult
from spark.table.commit_metadata import Committed, Folded, fold, fold_silver
from spark.table.delta_rs import is_delta, open_delta
from spark.table.delta_table import table_of
from spark.table.identifiers import double_quote
from spark.table.lake_location import is_object
from spark.table.log_reader import newest_here
from spark.table.needed_versions import Floor, floors_of

Answer = TypeVar("Answer")
# A folder's time moves on in steps, 4 ms on most kernels and up to 2 s on some file systems: two commits may share one.
_SETTLED_NS = 3_000_000_000


@dataclass(frozen=True)
class SeenLog:
    """A log as it was before it was read: its newest commit (name, inode, time) and its folder's time."""

    newest: tuple[str, int, int]
    folder_ns: int
    settled: bool


_KEPT: dict[tuple[str, str], tuple[SeenLog, Any]] = {}


def unless_changed(read: Callable[[str], Answer], path: str) -> Answer:
    """What `read` says of the table at the path: read anew only where the log has another newest commit since.

    A table in an object store is read each time: to list it costs as much as to open it.
    """
    if is_object(path):
        return read(path)
    key, log = (read.__name__, path), Path(path, "_delta_log")
    kept = _KEPT.get(key)
    seen = _look(log, kept[0] if kept else None)
    if seen is None:
        _KEPT.pop(key, None)
        return read(path)
    # What is committed while it is read makes the next question read again.
    answer: Answer = kept[1] if kept and kept[0].newest == seen.newest else read(path)
    _KEPT[key] = (seen, answer)
    return answer


def _look(log: Path, before: SeenLog | None) -> SeenLog | None:
    """The log now; None where it has no commit. A table that was made again has commits of the same names, not files."""
    try:
        folder_ns = log.stat().st_mtime_ns
        if before is not None and before.settled and before.folder_ns == folder_ns:
            return before
        now, version = time.time_ns(), newest_here(str(log.parent))
        listed = () if version is not None else os.listdir(log)  # noqa: PTH208 (twice as fast)
        commits = (entry for entry in listed if entry.endswith(".json"))
        name = f"{version:020}.json" if version is not None else max(commits, default=None)
        if name is None:
            return None
        newest = (log / name).stat()
    except OSError:
        return None
    return SeenLog((name, newest.st_ino, newest.st_mtime_ns), folder_ns, settled=now - folder_ns > _SETTLED_NS)


_PAGE = 50
Folding = TypeVar("Folding")


def bronze_committed(path: str) -> Committed | None:
    """Positions and record counts of every topic in the source's change log; None when there is no table yet."""
    return unless_changed(_bronze_committed, path)


def _bronze_committed(path: str) -> Committed | None:
    return _as_much_as_needed(path, fold)


def silver_committed(path: str) -> Folded | None:
    """What a silver table has folded; None when there is no table yet."""
    return unless_changed(_last_fold, path)


def ledger_counted(path: str) -> dict[str, Counted]:
    """Each table's place in its source's ledger; empty when there is no ledger yet."""
    ledger = _as_much_as_needed(path, fold_ledger)
    return ledger.tables if ledger is not None else {}


def silver_positions(folded: Folded | None, topic: str) -> dict[int, int]:
    """Per partition the offset up to which silver has folded the topic; empty when it has nothing of it."""
    state = folded.topics.get(topic) if folded else None
    return dict(state.positions) if state else {}


def bronze_rows(path: str, version: int, epochs: Mapping[str, int]) -> dict[tuple[str, int], int]:
    """Rows per (topic, partition) in the change log at a version, counted in the data, not in its metadata; with those that it
    has given to the backup.

    Of the topics in `epochs` only those of that epoch or a later one are counted.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    counts: Counter[tuple[str, int]] = Counter()
    table = open_delta(path, version=version)
    dataset = open_dataset(table, path)
    row_filter = None
    for topic, epoch in epochs.items():
        current = (ds.field("topic") != topic) | (ds.field("epoch") >= epoch)
        row_filter = current if row_filter is None else row_filter & current
    for batch in dataset.to_batches(columns=["topic", "partition"], filter=row_filter):
        grouped = pa.Table.from_batches([batch]).group_by(["topic", "partition"]).aggregate([([], "count_all")])
        for group in grouped.to_pylist():
            counts[group["topic"], group["partition"]] += group["count_all"]
    for topic, floor in floors_of(table.metadata().configuration).items():
        for partition in {p for offsets in floor.counts.values() for p in offsets}:
            if gone := floor.count_gone(partition, from_epoch=epochs.get(topic, 0)):
                counts[topic, partition] += gone
    return dict(counts)


@dataclass(frozen=True)
class SilverState:
    """A silver table at one version: what it has folded, and the rows that it holds then."""

    folded: Folded | None
    version: int
    rows: int


def silver_state(path: str) -> SilverState | None:
    """Both of the newest version, whoever wrote it: damage that others did must show. None: there is no table yet."""
    table = open_table(path)
    return None if table is None else SilverState(_last_fold(path, table.version()), int(table.version()), _rows(table))


def version_that_folded(path: str, wanted: Folded) -> int | None:
    """The newest version of a silver table that has folded each topic exactly as far as `wanted`, whoever wrote it; None where
    the log knows of none."""
    then = {topic: (state.epoch, state.positions) for topic, state in wanted.topics.items()}
    for version, folded in versions_of_folds(path):
        if {topic: (state.epoch, state.positions) for topic, state in folded.topics.items()} == then:
            return version
    return None


def versions_of_folds(path: str) -> Iterator[tuple[int, Folded]]:
    """Each fold that the log of a silver table still knows, newest first, with the newest version that has folded no more."""
    lowest: int | None = None
    for commits in table_of(path).looks(_PAGE):
        newest = max((version for version, _ in commits), default=-1)
        for version, text in sorted(commits, reverse=True):
            folded = fold_silver([(version, text)])
            if folded is None:
                continue
            if lowest is None or version < lowest:
                lowest = version
                yield newest, folded
            newest = version - 1


def silver_rows(path: str) -> int | None:
    """Rows by the log's own statistics; None when there is no table yet."""
    return unless_changed(_silver_rows, path)


def version_after(path: str, result: JobResult) -> int:
    """The table's version behind a run: its own commit, or where it had nothing to commit, the newest; -1 without a table."""
    if result.version is not None:
        return result.version
    table = open_table(path)
    return -1 if table is None else int(table.version())


def rows_at(path: str, version: int) -> int:
    """The same of an older version."""
    return _rows(open_delta(path, version=version))


def _silver_rows(path: str) -> int | None:
    table = open_table(path)
    return None if table is None else _rows(table)


def _last_fold(path: str, up_to: int | None = None) -> Folded | None:
    folds = map(fold_silver, table_of(path).looks(_PAGE, up_to=up_to))
    return next((folded for folded in folds if folded is not None), None)


def _rows(table: Any) -> int:
    """Rows of the table, those left out that its deletion vectors take away or that are marked as deleted.

    By the log's own statistics where they say it all, and of widened types, which delta-rs does not read: at most so many then.
    """
    marks = delta_rows.has_column(table, "_cdc_deleted")
    # With deletion vectors rows of its files may be gone; delta-rs no longer tells how many, file by file.
    if marks or "deletionVectors" in (table.protocol().reader_features or ()):
        counted = delta_rows.count_where(table, f"NOT coalesce({double_quote('_cdc_deleted')}, false)" if marks else "true")
        if counted is not None:
            return counted
    # Read as delta-rs gives it: pyarrow.table() loads pandas, 0.4 s of every `cdc status`.
    return sum(value or 0 for value in table.get_add_actions(flatten=True)["num_records"].to_pylist())


def open_table(path: str) -> Any:
    """The Delta table; None when there is none yet."""
    if not is_object(path) and not (Path(path) / "_delta_log").is_dir():
        return None
    return open_delta(path) if is_delta(path) else None


def _as_much_as_needed(path: str, fold_commits: Callable[[list[tuple[int, str | None]]], Folding]) -> Folding | None:
    """The fold of the newest commits, of more of them where it asks for more; None where there is no table.

    Raises:
        HistoryTooShortError: the log does not say it.
    """
    return table_of(path).fold(lambda commits: fold_commits(commits) if commits else None, _PAGE)


def bronze_rows_below(path: str, topic: str, epochs: Mapping[int, Mapping[int, int]]) -> int:
    """Rows of a topic below the given offsets of each of its epochs, counted in the data of the newest version; with those that
    were below them when they went to the backup."""
    table = open_table(path)
    if table is None or not epochs:
        return 0
    import pyarrow.dataset as ds

    floor = floors_of(table.metadata().configuration).get(topic)
    gone = floor.counts if floor is not None and floor.is_within(max(epochs), epochs[max(epochs)]) else {}

    dataset = open_dataset(table, path)
    filters = [
        (ds.field("epoch") == epoch) & (ds.field("topic") == topic) & (ds.field("partition") == p) & (ds.field("offset") < end)
        for epoch, positions in epochs.items()
        for p, end in positions.items()
    ]
    rows_here = sum(int(dataset.count_rows(filter=row_filter)) for row_filter in filters)
    return rows_here + sum(count for epoch in epochs for count in gone.get(epoch, {}).values())


def bronze_floors(path: str) -> dict[str, Floor]:
    """Up to where a change log has given its records to the backup, by topic; nowhere where there is no log."""
    table = open_table(path)
    return {} if table is None else floors_of(table.metadata().configuration)
