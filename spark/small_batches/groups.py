"""What a batch holds, counted as spark.bronze.counts counts it: what its commit says of each topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from spark.bronze import counts as bronze_counts
from spark.delta.topic_commits import TopicCommit
from spark.envelopes.envelope import TOMBSTONE
from spark.specs import TopicRange

_BY = ("topic", "partition", "kind", "initial")


class Last(NamedTuple):
    """The last event of a group."""

    offset: int
    position: str


class Group(NamedTuple):
    """Records of one topic, partition, kind and initial snapshot; `min_timestamp` in microseconds.

    None of them is of a transaction without the commit before it: such a batch is Spark's.
    """

    topic: str
    partition: int
    kind: str
    initial: int | None
    records: int
    first_offset: int
    min_timestamp: int
    highest: str | None
    last: Last | None
    opening: str | None = None
    unanchored: int = 0


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
    found = kinds.group_by(list(_BY), use_threads=False).aggregate(figures).to_pylist()
    return [
        Group(
            **{name: row[name] for name in _BY},
            records=row["offset_count"],
            first_offset=row["offset_min"],
            min_timestamp=row["timestamp_min"],
            highest=row["position_max"],
            last=None if row["position_last"] is None else Last(row["offset_max"], row["position_last"]),
        )
        for row in found
    ]


def shares(todo: Sequence[TopicRange], groups: Sequence[Group]) -> Mapping[str, TopicCommit]:
    """Each topic's share of the append."""
    return bronze_counts.shares(todo, groups, None, {})  # type: ignore[arg-type] # their names and types are a Row's
