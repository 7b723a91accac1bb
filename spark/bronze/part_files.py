"""The files that tasks write of a batch: which part each task reads, what it tells of its file, and all files as one
commit of bronze.

The parts' counts add up to what spark.bronze.batch_records would have counted, and go into the commit. A commit that
came in between, or an overlap in the log, leaves the batch to Spark.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark.bronze import append_job as bronze_job
from spark.bronze.append_job import APPEND_APP
from spark.bronze.batch_records import Group, Last
from spark.errors import LeftToSparkError
from spark.events.arrow_records import BRONZE_ARROW
from spark.events.envelope import TOMBSTONE
from spark.specs import BRONZE_NAMES, BronzeSpec, TopicRange
from spark.table.commit_metadata import Committed, bronze_metadata
from spark.table.data_files import AddFile
from spark.table.delta_table import commit_info, table_of
from spark.table.topic_commits import TopicCommit

_BY = ("topic", "partition", "kind", "initial")


def count_groups(records: pa.Table) -> list[Group]:
    """The groups of a batch whose records have their `position`, those of a partition in their order."""
    kinds = records.append_column("kind", pc.coalesce(records["op"], pa.scalar(TOMBSTONE)))
    micros = kinds["timestamp"].cast(pa.int64())
    kinds = kinds.set_column(kinds.schema.get_field_index("timestamp"), "timestamp", micros)
    figures = [
        ("offset", "count"),
        ("offset", "min"),
        ("timestamp", "min"),
        ("position", "max"),
        ("offset", "max"),
        ("position", "last"),
    ]
    rows = kinds.group_by(list(_BY), use_threads=False).aggregate(figures).to_pylist()
    return [
        Group(
            **{name: row[name] for name in _BY},
            records=row["offset_count"],
            first_offset=row["offset_min"],
            min_timestamp=row["timestamp_min"],
            highest=row["position_max"],
            last=None if row["position_last"] is None else Last(row["offset_max"], row["position_last"]),
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


def identify_ranges(topics: Sequence[TopicRange]) -> str:
    """What is to be read, as text: the same as long as nobody has appended anything of these topics."""
    ranges = [(t.topic, t.topic_id, t.epoch, sorted(t.ranges.items())) for t in topics]
    return json.dumps(sorted(ranges))


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


def commit_files(spec: BronzeSpec, committed: Committed, files: Sequence[AddFile], shares: Mapping[str, TopicCommit]) -> int:
    """The version of the commit; the table is made by it where there is none.

    Raises:
        LeftToSparkError: nothing is committed.
    """
    metadata = bronze_metadata(spec.operation_id, committed, shares)
    if committed.version < 0:
        turn = (APPEND_APP, committed.turn)
        table_of(spec.path).create_of_files(BRONZE_ARROW, files, bronze_job.TABLE_PROPERTIES, metadata, turn=turn)
        return 0
    table = table_of(spec.path)
    if set(table.columns()) != set(BRONZE_NAMES):
        raise LeftToSparkError("bronze has other columns")
    return table.commit(committed.version, _actions(committed, files, metadata))


def _actions(committed: Committed, files: Sequence[AddFile], metadata: str) -> list[dict[str, Any]]:
    """The commit as the protocol has it. Ours on a disk too: delta-rs would open the table, and put again as the next version
    what a store does not answer."""
    now, rows = int(time.time() * 1000), sum(json.loads(file["stats"])["numRecords"] for file in files)
    metrics = {"numFiles": len(files), "numOutputRows": rows, "numOutputBytes": sum(f["size"] for f in files)}
    return [
        commit_info("WRITE", metadata, metrics, {"mode": "Append"}),
        {"txn": {"appId": APPEND_APP, "version": committed.turn, "lastUpdated": now}},
        *({"add": file} for file in files),
    ]
