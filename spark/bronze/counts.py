"""What a batch holds, counted before it is committed.

The batch is small groups here: one per topic, partition, kind of record, initial snapshot and first transaction behind one.
Counting is what really reads Kafka, so this is where lost ranges show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as sf

from spark.bronze.anchors import Openings
from spark.delta.commits import TopicCommit
from spark.delta.topic_commits import SchemaIds
from spark.envelopes.avro_records import heads, schema_ids
from spark.envelopes.known_envelopes import envelope
from spark.kafka import offset_ranges as kafka_ranges
from spark.positions import layout
from spark.specs import TopicRange

Place = tuple[str, int]


class Reach(NamedTuple):
    """The highest position of a partition, and that of its last event."""

    highest: str
    last: str


def count_groups(drafts: DataFrame, topics: Sequence[TopicRange]) -> list[Row]:
    """One row per topic, partition, kind, initial snapshot, and transaction of changes without a last commit."""
    initial = sf.when((sf.col("op") == "r") & sf.col("last_commit").isNull(), sf.col("lsn"))
    unanchored = (sf.col("op") != "r") & sf.col("last_commit").isNull() & sf.col("lsn").isNotNull()
    opening = sf.when(unanchored, sf.col("tx_id"))
    grouped = drafts.groupBy("topic", "partition", "kind", initial.alias("initial"), opening.alias("opening")).agg(
        sf.count("*").alias("records"),
        sf.min("offset").alias("first_offset"),
        sf.unix_micros(sf.min("timestamp")).alias("min_timestamp"),
        sf.count_if(unanchored).alias("unanchored"),
        *_reach(),
        *(heads() if any(envelope(t.envelope).framed for t in topics) else ()),
    )
    with kafka_ranges.losses_named(topics):
        return grouped.collect()


def unknown_schemas(groups: Sequence[Row], topics: Sequence[TopicRange], known: Mapping[str, SchemaIds | None]) -> bool:
    """Whether there are records of a topic with a schema that nobody knew of when they were read."""
    for topic in topics:
        told = known.get(topic.topic)
        if told is not None and envelope(topic.envelope).framed:
            found = schema_ids([g for g in groups if g.topic == topic.topic])
            if any(set(ids) - set(told[part]) for part, ids in found.items()):
                return True
    return False


def position(place: Column) -> Column:
    """The position of a record of the batch whose place is known."""
    return layout.position(epoch=sf.col("epoch"), place=place, offset=sf.col("offset"))


def _reach() -> list[Column]:
    last = sf.max(sf.when(sf.col("position").isNotNull(), sf.struct("offset", "position")))
    return [sf.max("position").alias("highest"), last.alias("last")]


def _reaches(groups: Sequence[Row], events: DataFrame | None) -> dict[Place, Reach]:
    rows: Sequence[Row] = groups
    if events is not None:
        rows = events.groupBy("topic", "partition").agg(*_reach()).collect()
    highest: dict[Place, str] = {}
    last: dict[Place, tuple[int, str]] = {}
    for row in rows:
        if row.highest is not None:
            place = (row.topic, row.partition)
            highest[place] = max(highest.get(place, ""), row.highest)
            last[place] = max(last.get(place, (-1, "")), (row.last.offset, row.last.position))
    return {place: Reach(highest[place], last[place][1]) for place in highest}


def shares(
    todo: Sequence[TopicRange], groups: Sequence[Row], events: DataFrame | None, openings: Openings
) -> dict[str, TopicCommit]:
    """Each topic's share of the append, as its commit will say it; `events` where the drafts' positions were not final."""
    reaches = _reaches(groups, events)
    found = {}
    for topic in todo:
        own = [g for g in groups if g.topic == topic.topic]
        by_op: Counter[str] = Counter()
        snapshots: dict[int, int] = {}
        for group in own:
            by_op[group.kind] += group.records
            if group.initial is not None:
                snapshots[group.partition] = max(group.initial, snapshots.get(group.partition, 0))
        reach = {p: reaches[topic.topic, p] for p in topic.ranges if (topic.topic, p) in reaches}
        found[topic.topic] = TopicCommit(
            table=topic.table,
            topic_id=topic.topic_id,
            epoch=topic.epoch,
            ranges=dict(topic.ranges),
            records=sum(by_op.values()),
            by_op=dict(by_op),
            max_position={p: r.highest for p, r in reach.items()},
            last_position={p: r.last for p, r in reach.items()},
            snapshots=snapshots,
            openings={p: openings[topic.topic, p] for p in topic.ranges if (topic.topic, p) in openings},
            min_timestamp=min((g.min_timestamp for g in own), default=None),
            schema_ids=schema_ids(own) if envelope(topic.envelope).framed else None,
        )
    return found
