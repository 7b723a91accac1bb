"""The append of a batch to bronze: its rows as files of Parquet, and these files as one commit.

    records with bronze's columns ─▶ write_part ─▶ BatchPart, a file that no commit names yet ─▶ commit_parts ─▶ a version

The client writes the files, or tasks do, a part each; the client commits. Who has read and decoded the records does not matter
here. The counts are part of the commit, so that no reader ever has to guess what a commit
holds. A commit is a file of the log which only one writer can make, as the version behind the one that it has seen: of two
appends of the same records one finds them committed. A writer that dies before its commit leaves files that no commit names, and
VACUUM removes them.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark.bronze import batch_records
from spark.bronze.batch_records import Group, Last
from spark.errors import LeftToSparkError, TableStopError, quantity
from spark.events.arrow_records import BRONZE_ARROW, sort_rows
from spark.events.envelope import TOMBSTONE, UNKNOWN
from spark.events.kafka_source import remaining
from spark.specs import BRONZE_NAMES, BronzeSpec, JobResult, TopicRange
from spark.table.commit_metadata import Committed, bronze_metadata, fold
from spark.table.data_files import AddFile, write_file
from spark.table.delta_table import commit_info, table_of
from spark.table.table_folder import open_folder
from spark.table.topic_commits import TopicCommit
from spark.table.write_lease import lend_to_task

APPEND_APP = "cdc_assets.bronze"
TABLE_PROPERTIES = {
    "delta.dataSkippingStatsColumns": "table,topic,partition,offset,timestamp,position",
    "delta.checkpointInterval": "100",
    "delta.enableDeletionVectors": "false",
}
Lend = Callable[[str], AbstractContextManager[object]]
"""How a table's lock is taken for a commit (spark.table.write_lease)."""
_ORDER = ("table", "partition", "offset")
_ROWS_APART = 4096
_BY = ("topic", "partition", "kind", "initial")


def count_groups(records: pa.Table) -> list[Group]:
    """The groups of a batch whose records have their `position`, or none; those of a partition stand in their order."""
    kinds = pc.if_else(pc.is_null(records["value"]), TOMBSTONE, pc.coalesce(records["op"], pa.scalar(UNKNOWN)))
    records = records.append_column("kind", kinds)
    # An event without a place in its source's log is not where a partition has come to.
    records = records.append_column("placed", pc.if_else(pc.is_valid(records["position"]), records["offset"], None))
    micros = records["timestamp"].cast(pa.int64())
    records = records.set_column(records.schema.get_field_index("timestamp"), "timestamp", micros)
    figures = [
        ("offset", "count"),
        ("offset", "min"),
        ("timestamp", "min"),
        ("position", "max"),
        ("placed", "max"),
        ("position", "last"),
    ]
    rows = records.group_by(list(_BY), use_threads=False).aggregate(figures).to_pylist()
    return [
        Group(
            **{name: row[name] for name in _BY},
            records=row["offset_count"],
            first_offset=row["offset_min"],
            min_timestamp=row["timestamp_min"],
            highest=row["position_max"],
            last=None if row["position_last"] is None else Last(row["placed_max"], row["position_last"]),
        )
        for row in rows
    ]


@dataclass(frozen=True)
class BatchPart:
    """A file that no commit names yet (None: there were no records), and its groups; `whole`: the batch that it is a part of."""

    whole: str
    file: AddFile | None = None
    groups: Sequence[Group] = field(default_factory=tuple)

    def to_json(self) -> str:
        """For the client, and the task that commits."""
        return json.dumps({"whole": self.whole, "file": self.file, "groups": self.groups})

    @classmethod
    def from_json(cls, text: str) -> BatchPart:
        """Read back what to_json wrote."""
        data = json.loads(text)
        groups_read = [Group(*values) for values in data["groups"]]
        groups = tuple(group._replace(last=None if group.last is None else Last(*group.last)) for group in groups_read)
        return cls(data["whole"], data["file"], groups)


def divide_ranges(topics: Sequence[TopicRange], parts: int) -> list[list[TopicRange]]:
    """Parts of about as many offsets each, in their order; fewer where there is less to read."""
    total = sum(end - start for topic in topics for start, end in topic.ranges.values())
    size, divided, room = max(1, -(-total // parts)), list[list[TopicRange]](), 0
    for topic in topics:
        for partition, (start, end) in topic.ranges.items():
            for first, last in _cuts(start, end, room, size):
                if room == 0:
                    divided.append([])
                    room = size
                room -= last - first
                divided[-1].append(replace(topic, ranges={partition: (first, last)}))
    return divided


def _cuts(start: int, end: int, room: int, size: int) -> Iterator[tuple[int, int]]:
    """A range in pieces: the first fills the part that is open, each other is at most a part."""
    at, step = start, room or size
    while at < end:
        yield at, min(end, at + step)
        at, step = at + step, size


@dataclass(frozen=True)
class MissingRanges:
    """What bronze has committed, and what of the ranges it has not."""

    committed: Committed
    todo: Sequence[TopicRange]

    @property
    def identity(self) -> str:
        """What is to be read, as text: the same as long as nobody has appended anything of these topics."""
        return json.dumps(sorted((t.topic, t.topic_id, t.epoch, sorted(t.ranges.items())) for t in self.todo))


def find_missing_ranges(spec: BronzeSpec) -> MissingRanges:
    """Bronze's log as it is now.

    Raises:
        TableStopError: the table is somebody else's.
        JobRefusedError: a range does not continue what is committed, or the topic is another one.
    """
    table = table_of(spec.path)
    committed = table.fold(fold, first=1)
    if committed.version >= 0 and not committed.topics:
        table.refuse_foreign()
    return MissingRanges(committed, [left for topic in spec.topics if (left := remaining(topic, committed)) is not None])


def write_part(path: str, identity: str, records: pa.Table, groups: Sequence[Group] = ()) -> BatchPart:
    """The records as a file; not under the table's lock: nobody waits until these are read and written."""
    if not records.num_rows:
        return BatchPart(identity)
    rows = sort_rows(records.select(BRONZE_NAMES).cast(BRONZE_ARROW), _ORDER)
    folder = open_folder(path)
    folder.make()
    return BatchPart(identity, write_file(folder, rows, groups=row_groups(rows["table"])), groups)


def row_groups(tables: pa.ChunkedArray) -> list[int]:
    """Rows that are read apart: of one table, or of several small ones. Who folds some tables reads little of others."""
    sizes: list[int] = []
    for count in tables.value_counts().field("counts").to_pylist():
        if sizes and sizes[-1] < _ROWS_APART:
            sizes[-1] += count
        else:
            sizes.append(count)
    return sizes


def commit_parts(
    spec: BronzeSpec,
    parts: Sequence[BatchPart],
    *,
    started: float,
    shares: Mapping[str, TopicCommit] | None = None,
    lend: Lend = lend_to_task,
) -> JobResult:
    """Commit what was written of the same records; where that fails, their files go. `shares`: None where the parts' groups tell
    them.

    Others may have appended other topics meanwhile, as the run of another table does.

    Raises:
        LeftToSparkError: somebody has appended some of the records, or holds the table; nothing is committed.
    """
    with lend(spec.path):
        missing = find_missing_ranges(spec)
        if not missing.todo:
            # Somebody else has appended them all, or this was asked for again. The files are left to VACUUM.
            return append_result(None, {}, [], started)
        if {batch_part.whole for batch_part in parts} - {missing.identity}:
            discard_parts(spec, parts)
            raise LeftToSparkError("somebody else appended some of these records meanwhile")
        if shares is None:
            shares = batch_records.shares(missing.todo, [group for batch_part in parts for group in batch_part.groups])
        files = [batch_part.file for batch_part in parts if batch_part.file is not None]
        version = commit_files(spec, missing.committed, files, shares)
        return append_result(version, shares, missing.todo, started)


def discard_parts(spec: BronzeSpec, parts: Sequence[BatchPart]) -> None:
    """Remove files that no commit names, or was tried with."""
    folder = open_folder(spec.path)
    for batch_part in parts:
        if batch_part.file is not None:
            folder.delete(batch_part.file["path"])


def commit_files(spec: BronzeSpec, committed: Committed, files: Sequence[AddFile], shares: Mapping[str, TopicCommit]) -> int:
    """The version of the commit; the table is made by it where there is none.

    Raises:
        LeftToSparkError: nothing is committed.
        TableStopError: the files have not as many rows as the shares tell.
    """
    rows, records = _count_rows(files), sum(share.records for share in shares.values())
    if shares and rows != records:
        raise TableStopError(
            f"{spec.path}: {quantity(rows, 'row')} written, {records} read (operation {spec.operation_id}); nothing is "
            "committed; do not run it again before the difference is understood"
        )
    metadata = bronze_metadata(spec.operation_id, committed, shares)
    if committed.version < 0:
        turn = (APPEND_APP, committed.turn)
        table_of(spec.path).create_of_files(BRONZE_ARROW, files, TABLE_PROPERTIES, metadata, turn=turn)
        return 0
    table = table_of(spec.path)
    if set(table.columns()) != set(BRONZE_NAMES):
        raise LeftToSparkError("bronze has other columns")
    return table.commit(committed.version, _actions(committed, files, metadata))


def _actions(committed: Committed, files: Sequence[AddFile], metadata: str) -> list[dict[str, Any]]:
    """The commit as the protocol has it. Ours on a disk too: delta-rs would open the table, and put again as the next version
    what a store does not answer."""
    now, rows = int(time.time() * 1000), _count_rows(files)
    metrics = {"numFiles": len(files), "numOutputRows": rows, "numOutputBytes": sum(f["size"] for f in files)}
    return [
        commit_info("WRITE", metadata, metrics, {"mode": "Append"}),
        {"txn": {"appId": APPEND_APP, "version": committed.turn, "lastUpdated": now}},
        *({"add": file} for file in files),
    ]


def _count_rows(files: Sequence[AddFile]) -> int:
    return sum(json.loads(file["stats"])["numRecords"] for file in files)


def append_result(
    version: int | None, shares: Mapping[str, TopicCommit], todo: Sequence[TopicRange], started: float
) -> JobResult:
    """What a run tells; `started` is of time.monotonic()."""
    by_op: Counter[str] = Counter()
    tables: dict[str, dict[str, object]] = {}
    for topic, share in shares.items():
        by_op.update(share.by_op)
        tables[share.table] = {
            "topic": topic,
            "records": share.records,
            "by_op": share.by_op,
            "ranges": {str(p): list(r) for p, r in share.ranges.items()},
        }
    records = sum(by_op.values())
    return JobResult(
        job="bronze",
        table=None,
        version=version,
        rows_read=records,
        rows_inserted=records,
        rows_updated=0,
        rows_deleted=0,
        by_op=dict(by_op),
        ranges={t.topic: dict(t.ranges) for t in todo},
        seconds=round(time.monotonic() - started, 3),
        detail={"tables": tables},
    )
