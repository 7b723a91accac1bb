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

from spark.bronze import drafts as bronze_drafts
from spark.bronze.anchors import assign_positions
from spark.bronze.counts import count_groups
from spark.delta.cluster import compute_once
from spark.delta.commits import Committed, fold
from spark.delta.log import fold_history
from spark.kafka import offset_ranges as kafka_ranges
from spark.positions.commit_place import CommitPlace
from spark.positions.layout import EPOCH_WIDTH
from spark.specs import BronzeSpec, TopicRange

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
    asked = spec.records
    filled = [t for t in asked.topics if any(end > start for start, end in t.ranges.values())]
    if not filled:
        return Boundaries({})
    with kafka_ranges.refusals_named((asked.bootstrap, asked.login)):
        records = kafka_ranges.read(session, asked, filled)
        return find_boundaries(records, filled, fold_history(session, asked.path, fold), spec.place)


def find_boundaries(records: DataFrame, topics: Sequence[TopicRange], committed: Committed, place: CommitPlace) -> Boundaries:
    """Of records in the columns of Spark's Kafka source; `committed` is what bronze has before them."""
    drafts = bronze_drafts.drafts(records, topics).transform(compute_once)
    placed, _ = assign_positions(drafts, count_groups(drafts, topics), committed)
    at = sf.substring("position", EPOCH_WIDTH + 2, _LONGEST)
    is_behind = at > sf.lit(place.behind)
    is_unclear = at.startswith(place.unclear) if place.unclear else sf.lit(False)
    first = sf.min(sf.when(is_behind, sf.col("offset")))
    last_row = sf.max(sf.when(~is_behind & sf.col("op").eqNullSafe("r"), sf.col("offset")))
    found = placed.groupBy("topic", "partition").agg(
        first.alias("first"), (last_row > first).alias("unread"), sf.count_if(is_unclear).alias("unclear")
    )
    ends: dict[str, dict[int, int]] = {}
    unclear, unread = set[str](), set[str]()
    for row in found.collect():
        if row["first"] is not None:
            ends.setdefault(row["topic"], {})[row["partition"]] = row["first"]
        unclear |= {row["topic"]} if row["unclear"] else set()
        unread |= {row["topic"]} if row["unread"] else set()
    return Boundaries(ends, tuple(sorted(unclear)), tuple(sorted(unread)))
