"""Where a place between two commits lies in each partition of the topics.

    records that bronze does not have yet ─▶ their positions ─▶ the first offset of each partition behind the place

A partition has its records in the order of commits. What is delivered again comes behind its first delivery, so an older record
behind the boundary is a copy and changes nothing; but not a row that a snapshot reads of an older state: its table is not whole
before the boundary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.bronze import batch_records
from spark.bronze.batch_records import assign_positions, count_groups
from spark.events import kafka_source as kafka_ranges
from spark.events.positions import EPOCH_WIDTH
from spark.record_formats import CommitPlace
from spark.specs import BronzeSpec, TopicRange
from spark.table.commit_metadata import Committed, fold
from spark.table.delta_table import table_of
from spark.table.spark_session import compute_once

_LONGEST = 1_000


@dataclass(frozen=True)
class BoundarySpec:
    """The ranges that bronze does not have yet, as it would append them, and the place."""

    records: BronzeSpec
    place: CommitPlace


@dataclass(frozen=True)
class Boundaries:
    """`ends`: by topic and partition the first offset behind the place, where there is one. `unclear`: topics with records of
    which nobody knows on which side they are. `unread`: topics in which rows of a snapshot come behind the place."""

    ends: dict[str, dict[int, int]]
    unclear: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def run(session: SparkSession, spec: BoundarySpec) -> Boundaries:
    """By the records in Kafka; nothing is written."""
    batch = spec.records
    filled = [topic for topic in batch.topics if topic.has_offsets]
    if not filled:
        return Boundaries({})
    with kafka_ranges.refusals_named((batch.bootstrap, batch.login)):
        records = kafka_ranges.read(session, batch, filled)
        return find_boundaries(records, filled, table_of(batch.path).fold(fold), spec.place)


def find_boundaries(records: DataFrame, topics: Sequence[TopicRange], committed: Committed, place: CommitPlace) -> Boundaries:
    """Of records in the columns of Spark's Kafka source; `committed` is what bronze has before them."""
    drafts = batch_records.drafts(records, topics).transform(compute_once)
    placed, _ = assign_positions(drafts, count_groups(drafts, topics), committed)
    at = sf.substring("position", EPOCH_WIDTH + 2, _LONGEST)
    is_behind = at > sf.lit(place.behind)
    is_unclear = at.startswith(place.unclear) if place.unclear else sf.lit(False)
    first = sf.min(sf.when(is_behind, sf.col("offset")))
    last_row = sf.max(sf.when(~is_behind & sf.col("op").eqNullSafe("r"), sf.col("offset")))
    boundaries = placed.groupBy("topic", "partition").agg(
        first.alias("first"), (last_row > first).alias("unread"), sf.count_if(is_unclear).alias("unclear")
    )
    ends: dict[str, dict[int, int]] = {}
    unclear, unread = set[str](), set[str]()
    for row in boundaries.collect():
        if row["first"] is not None:
            ends.setdefault(row["topic"], {})[row["partition"]] = row["first"]
        unclear |= {row["topic"]} if row["unclear"] else set()
        unread |= {row["topic"]} if row["unread"] else set()
    return Boundaries(ends, tuple(sorted(unclear)), tuple(sorted(unread)))
