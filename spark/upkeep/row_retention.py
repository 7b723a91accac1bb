"""Rows that are older than they are to be kept, taken out by one commit each: records of a change log, windows of a
ledger, settled records of a quarantine.

Records of a change log go only as far as their copies in the backup were proven elsewhere: where the log holds more
or fewer of them, nothing is removed. The commit says which they were, and of windows from when on there are some.
Records of a quarantine that are open or were given up stay.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark.errors import LeftToSparkError, TableStopError, quantity
from spark.table.data_files import AddFile, read_columns, read_rows, write_file
from spark.table.delta_table import LiveTable
from spark.table.needed_versions import FLOOR, Floor, floors_of, floors_text
from spark.table.table_folder import LakeFolder, open_folder
from spark.upkeep.file_rewrite import columns_with_bounds, replace_files, schema_of

_PLACE = ("topic", "epoch", "partition", "offset")
Counted = Counter[tuple[str, int, int]]


@dataclass(frozen=True)
class OldRecords:
    """What is to be gone afterwards, by topic, with what went before: each of its records is older than `until` (seconds since
    1970), and in the backup."""

    floors: Mapping[str, Floor]
    until: float


def count_old_records(live: LiveTable, old: OldRecords) -> int:
    """How many records would go."""
    floors = floors_of(live.metadata.get("configuration"))
    return sum(max(0, floor.records - _records(floors, topic)) for topic, floor in old.floors.items())


def remove_old_records(path: str, live: LiveTable, old: OldRecords) -> int:
    """How many records went.

    What goes, and that the backup has each of them, is found out elsewhere (cdc_assets.recovery.old_bronze_records).
    Here it is only believed as far as the counts go: where the log holds more or fewer records there than were proven,
    nothing is removed.

    Raises:
        LeftToSparkError: a writer has come before, or the log has vectors; nothing is removed.
        TableStopError: the log holds other records there than were proven to be in the backup; nothing is removed.
    """
    floors = floors_of(live.metadata.get("configuration"))
    newer = {topic: floor for topic, floor in old.floors.items() if floor.records > _records(floors, topic)}
    if not newer:
        return 0
    if any(file.get("deletionVector") for file in live.files.values()):
        raise LeftToSparkError("somebody has deleted rows by vectors, which no change log of ours has")
    folder, schema, gone = open_folder(path), schema_of(live), Counted()
    removed, added = list[AddFile](), list[AddFile]()
    try:
        for file in [candidate for candidate in live.files.values() if _may_have_older(candidate, old.until)]:
            mask = _is_below(_places(folder, file, schema), newer)
            if not pc.any(mask).as_py():
                continue
            rows = read_rows(folder, file, None, schema)
            gone += _count(rows.filter(mask))
            kept = rows.filter(pc.invert(mask))
            removed.append(file)
            added += [write_file(folder, kept, columns_with_bounds(live, schema))] if kept.num_rows else []
        _refuse_others(path, gone, floors, newer)
        configuration = {**(live.metadata.get("configuration") or {}), FLOOR: floors_text({**floors, **newer})}
        also = [{"metaData": {**live.metadata, "configuration": configuration}}]
        replace_files(path, live, removed, added, operation="DELETE", also=also)
    except (LeftToSparkError, TableStopError):
        for file in added:
            folder.delete(file["path"])
        raise
    return sum(gone.values())


def _records(floors: Mapping[str, Floor], topic: str) -> int:
    return floors[topic].records if topic in floors else 0


def _may_have_older(file: AddFile, until: float) -> bool:
    least = (json.loads(file["stats"]) if file.get("stats") else {}).get("minValues", {}).get("timestamp")
    if not least:
        return True
    moment = datetime.fromisoformat(str(least).replace("Z", "+00:00"))
    moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return moment.timestamp() < until


def _places(folder: LakeFolder, file: AddFile, schema: pa.Schema) -> pa.Table:
    columns = read_columns(folder, file, _PLACE)
    return columns.cast(pa.schema([schema.field(name) for name in _PLACE]))


def _is_below(rows: pa.Table, floors: Mapping[str, Floor]) -> pa.ChunkedArray:
    below = pa.chunked_array([pa.repeat(pa.scalar(False), rows.num_rows)])
    for topic, floor in floors.items():
        within = pc.less(rows["epoch"], floor.epoch)
        for partition, end in floor.positions.items():
            own = pc.and_(pc.equal(rows["epoch"], floor.epoch), pc.equal(rows["partition"], partition))
            within = pc.or_(within, pc.and_(own, pc.less(rows["offset"], end)))
        below = pc.or_(below, pc.fill_null(pc.and_(pc.equal(rows["topic"], topic), within), False))
    return below


def _count(rows: pa.Table) -> Counted:
    grouped = rows.group_by(["topic", "epoch", "partition"]).aggregate([([], "count_all")])
    return Counted({(e["topic"], e["epoch"], e["partition"]): e["count_all"] for e in grouped.to_pylist()})


def _refuse_others(path: str, gone: Counted, floors: Mapping[str, Floor], newer: Mapping[str, Floor]) -> None:
    # Of each epoch and partition exactly those that were proven go: one record more or less, and nothing goes.
    proven = Counted()
    for topic, floor in newer.items():
        before = floors[topic].counts if topic in floors else {}
        for epoch, counts in floor.counts.items():
            for partition, count in counts.items():
                proven[topic, epoch, partition] = count - before.get(epoch, {}).get(partition, 0)
    if +gone != +proven:
        topic, epoch, partition = differing = min({key for key in gone | proven if gone[key] != proven[key]})
        raise TableStopError(
            f"{path} holds {quantity(gone[differing], 'old record')} of {topic} epoch {epoch} partition {partition}, the backup "
            f"{proven[differing]}; nothing is removed: cdc backup verify"
        )


WINDOWS_FROM = "cdc.ledgerFrom"
"""Table property: seconds since 1970 from which on there are windows."""
A_DAY = 86_400
"""So often at most: each time files are written anew."""


@dataclass(frozen=True)
class OldWindows:
    """Windows that begin before `until` (seconds since 1970), but for those in `kept`: (table, begin in seconds, op)."""

    until: int
    kept: frozenset[tuple[str, int, str]] = frozenset()


def is_removal_due(live: LiveTable, old: OldWindows) -> bool:
    """Whether windows of a whole day can go."""
    begin = int((live.metadata.get("configuration") or {}).get(WINDOWS_FROM, 0))
    return old.until - begin >= A_DAY


def count_old_windows(path: str, live: LiveTable, old: OldWindows) -> int:
    """How many rows of the ledger would go."""
    if not is_removal_due(live, old):
        return 0
    folder, schema = open_folder(path), schema_of(live)
    return sum(pc.sum(_is_old(read_rows(folder, file, None, schema), old)).as_py() or 0 for file in live.files.values())


def remove_old_windows(path: str, live: LiveTable, old: OldWindows) -> int:
    """How many rows went.

    The commit also says from when on there are windows (WINDOWS_FROM).

    Raises:
        LeftToSparkError: a writer has come before, or it has vectors; nothing is removed.
    """
    if not is_removal_due(live, old):
        return 0
    if any(file.get("deletionVector") for file in live.files.values()):
        raise LeftToSparkError("somebody has deleted rows by vectors, which no ledger of ours has")
    folder, schema, gone = open_folder(path), schema_of(live), 0
    removed, kept = list[AddFile](), list[pa.Table]()
    for file in live.files.values():
        rows = read_rows(folder, file, None, schema)
        is_old = _is_old(rows, old)
        count = pc.sum(is_old).as_py() or 0
        if count:
            gone += count
            removed.append(file)
            kept.append(rows.filter(pc.invert(is_old)))
    rows = pa.concat_tables(kept) if kept else None
    added = [write_file(folder, rows)] if rows is not None and rows.num_rows else []
    configuration = {**(live.metadata.get("configuration") or {}), WINDOWS_FROM: str(old.until)}
    also = [{"metaData": {**live.metadata, "configuration": configuration}}]
    replace_files(path, live, removed, added, operation="DELETE", also=also)
    return gone


def _is_old(rows: pa.Table, old: OldWindows) -> pa.ChunkedArray:
    begin = pc.divide(rows["window_start"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()), 1_000_000)
    is_old = pc.less(begin, old.until)
    if not old.kept:
        return is_old
    return pc.and_(is_old, pc.invert(_is_kept(rows, begin, old)))


def _is_kept(rows: pa.Table, begin: pa.ChunkedArray, old: OldWindows) -> pa.Array:
    places: Sequence[tuple[Any, ...]] = list(
        zip(rows["table"].to_pylist(), begin.to_pylist(), rows["op"].to_pylist(), strict=True)
    )
    return pa.array([window_key in old.kept for window_key in places], pa.bool_())


_TOLD = ("redriven_at", "dropped_at", "position", "built_on")


@dataclass(frozen=True)
class SettledRecords:
    """Those redriven before `until` (microseconds since 1970) and before silver's version `version` was made.

    `until` is at most the newest mark that the table's history has heeded (Folded.settled), where it has one.
    """

    until: int
    version: int


def count_settled(path: str, live: LiveTable, settled: SettledRecords) -> int:
    """How many records would go; of their bytes nothing is read."""
    return sum(pc.sum(mask).as_py() or 0 for _, mask in _masks_of_settled(open_folder(path), live, settled))


def remove_settled(path: str, live: LiveTable, settled: SettledRecords) -> int:
    """How many records went.

    Open records stay, also those that a later event has superseded: a person still has to see them. So do those that
    were given up: whoever folds bronze again leaves them out because of their row here
    (spark.silver.quarantine_table.without_dropped).

    Raises:
        LeftToSparkError: a writer has come before, or it has vectors; nothing is removed.
    """
    if any(file.get("deletionVector") for file in live.files.values()):
        raise LeftToSparkError("somebody has deleted rows by vectors, which no quarantine of ours has")
    folder, schema, gone = open_folder(path), schema_of(live), 0
    removed, kept = list[AddFile](), list[pa.Table]()
    for file, mask in _masks_of_settled(folder, live, settled):
        if count := pc.sum(mask).as_py() or 0:
            gone += count
            removed.append(file)
            kept.append(read_rows(folder, file, None, schema).filter(pc.invert(mask)))
    if not removed:
        return 0
    rows = pa.concat_tables(kept)
    added = [write_file(folder, rows)] if rows.num_rows else []
    try:
        replace_files(path, live, removed, added, operation="DELETE")
    except LeftToSparkError:
        for made in added:
            folder.delete(made["path"])
        raise
    return gone


def _masks_of_settled(folder: LakeFolder, live: LiveTable, settled: SettledRecords) -> Iterator[tuple[AddFile, pa.ChunkedArray]]:
    for file in live.files.values():
        rows = read_columns(folder, file, _TOLD)
        redriven_at = rows["redriven_at"].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        is_old = pc.fill_null(pc.less(redriven_at, settled.until), False)
        # An attempt that was killed before silver's commit has marked what its next attempt still has to fold.
        is_folded = pc.fill_null(pc.less(rows["built_on"], settled.version), False)
        # Without a position of its own nobody could say its fate but by its row here (spark.proof.ledger_fates).
        has_fate = pc.and_(pc.is_valid(rows["position"]), pc.is_null(rows["dropped_at"]))
        yield file, pc.and_(pc.and_(is_old, is_folded), has_fate)
