"""Records of a change log that are older than they are to be kept: taken out by one commit, which also says which they were.

What goes, and that the backup has each of them, is found out elsewhere (cdc_assets.restore.old_records). Here it is only believed
as far as the counts go: where the log holds more or fewer records there than were proven, nothing is removed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark.delta.data_files import AddFile, read_columns, read_rows, write_file
from spark.delta.floor import FLOOR, Floor, floors_of, floors_text
from spark.delta.live_files import LiveTable
from spark.errors import LeftToSparkError, MaintenanceError, quantity
from spark.lake.folder import LakeFolder, open_folder
from spark.maintenance.rewriting import columns_with_bounds, replace_files, schema_of

_PLACE = ("topic", "epoch", "partition", "offset")
Counted = Counter[tuple[str, int, int]]


@dataclass(frozen=True)
class OldRecords:
    """What is to be gone afterwards, by topic, with what went before: each of its records is older than `until` (seconds since
    1970), and in the backup."""

    floors: Mapping[str, Floor]
    until: float


def count_old(live: LiveTable, old: OldRecords) -> int:
    """How many records would go."""
    known = floors_of(live.metadata.get("configuration"))
    return sum(max(0, floor.records - _records(known, topic)) for topic, floor in old.floors.items())


def remove_old(path: str, live: LiveTable, old: OldRecords) -> int:
    """How many records went.

    Raises:
        LeftToSparkError: a writer has come before, or the log has vectors; nothing is removed.
        MaintenanceError: the log holds other records there than were proven to be in the backup; nothing is removed.
    """
    known = floors_of(live.metadata.get("configuration"))
    wanted = {topic: floor for topic, floor in old.floors.items() if floor.records > _records(known, topic)}
    if not wanted:
        return 0
    if any(file.get("deletionVector") for file in live.files.values()):
        raise LeftToSparkError("somebody has deleted rows by vectors, which no change log of ours has")
    folder, schema, gone = open_folder(path), schema_of(live), Counted()
    removed, added = list[AddFile](), list[AddFile]()
    try:
        for file in [each for each in live.files.values() if _may_have_older(each, old.until)]:
            mask = _is_below(_places(folder, file, schema), wanted)
            if not pc.any(mask).as_py():
                continue
            rows = read_rows(folder, file, None, schema)
            gone += _count(rows.filter(mask))
            kept = rows.filter(pc.invert(mask))
            removed.append(file)
            added += [write_file(folder, kept, columns_with_bounds(live, schema))] if kept.num_rows else []
        _refuse_others(path, gone, known, wanted)
        also = [{"metaData": _with_floors(live, {**known, **wanted})}]
        replace_files(path, live, removed, added, operation="DELETE", also=also)
    except (LeftToSparkError, MaintenanceError):
        for file in added:
            folder.delete(file["path"])
        raise
    return sum(gone.values())


def _records(known: Mapping[str, Floor], topic: str) -> int:
    return known[topic].records if topic in known else 0


def _may_have_older(file: AddFile, until: float) -> bool:
    """By the bounds of the file: what goes is older than that."""
    least = (json.loads(file["stats"]) if file.get("stats") else {}).get("minValues", {}).get("timestamp")
    if not least:
        return True
    moment = datetime.fromisoformat(str(least).replace("Z", "+00:00"))
    moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return moment.timestamp() < until


def _places(folder: LakeFolder, file: AddFile, schema: pa.Schema) -> pa.Table:
    found = read_columns(folder, file, _PLACE)
    return found.cast(pa.schema([schema.field(name) for name in _PLACE]))


def _is_below(rows: pa.Table, floors: Mapping[str, Floor]) -> pa.ChunkedArray:
    """Whether each row is to go; one that does not say of which epoch it is stays."""
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


def _refuse_others(path: str, gone: Counted, known: Mapping[str, Floor], wanted: Mapping[str, Floor]) -> None:
    """Of each epoch and partition exactly those that were proven."""
    proven = Counted()
    for topic, floor in wanted.items():
        before = known[topic].counts if topic in known else {}
        for epoch, counts in floor.counts.items():
            for partition, count in counts.items():
                proven[topic, epoch, partition] = count - before.get(epoch, {}).get(partition, 0)
    if +gone != +proven:
        place = min({key for key in gone | proven if gone[key] != proven[key]})
        raise MaintenanceError(
            f"{path} holds {quantity(gone[place], 'old record')} of {place[0]} epoch {place[1]} partition {place[2]}, the backup "
            f"{proven[place]}; nothing is removed: cdc backup verify"
        )


def _with_floors(live: LiveTable, floors: Mapping[str, Floor]) -> dict[str, Any]:
    configuration = {**(live.metadata.get("configuration") or {}), FLOOR: floors_text(floors)}
    return {**live.metadata, "configuration": configuration}
