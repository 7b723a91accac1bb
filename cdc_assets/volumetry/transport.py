"""Committed records in topic = in mirror = in bronze, at one cut, while records keep coming.

The cut is what bronze has committed. The mirror is counted up to exactly those offsets; then the core topic is
counted up to the same number of records. MirrorMaker 2 keeps partition and order, so the first n records of
the mirror must be the first n of the topic, byte for byte (count and digest): a record lost in the middle shows
even when others have come since. Bronze's rows are counted in the Delta table by a reader that is not Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cdc_assets.errors import KafkaError
from cdc_assets.quantity import quantity
from cdc_assets.resources.kafka import KafkaCluster, TopicState
from cdc_assets.volumetry.tally import PartitionTally, TopicTally, advance_to_counts, advance_to_offsets


@dataclass(frozen=True)
class TransportCount:
    """Records up to the cut in each link, and what differs (empty: nothing)."""

    topic_records: int
    mirror_records: int
    bronze_rows: int
    differences: tuple[str, ...]
    topic: TopicTally
    mirror: TopicTally
    judged: bool = True
    """Whether it was compared with what the source has declared, or need not be (declared_rows)."""

    @property
    def equal(self) -> bool:
        """All three links hold the same records."""
        return not self.differences


@dataclass(frozen=True)
class TopicAtCluster:
    """A topic as it was looked at, and the cluster that it can be read from."""

    cluster: KafkaCluster
    state: TopicState


@dataclass(frozen=True)
class BronzeCut:
    """What bronze has committed of a mirror: by partition the offset on the lake's cluster, and how many rows are below it."""

    offsets: Mapping[int, int]
    rows: Mapping[int, int]


def count_transport(
    *, core: TopicAtCluster, lake: TopicAtCluster, bronze: BronzeCut, previous: tuple[TopicTally, TopicTally] | None
) -> TransportCount:
    """Compare one table's topic, mirror and bronze at bronze's cut.

    `previous` are the tallies of the last comparison; they are a cache: without them both topics are counted from their
    beginning.
    """
    cut = bronze.offsets
    topic, mirror = _starting_tallies(core.state, lake.state, cut, previous)
    mirror = advance_to_offsets(lake.cluster, mirror, {p: max(end, mirror.partitions[p].next_offset) for p, end in cut.items()})
    counts = {p: tally.records for p, tally in mirror.partitions.items()}
    ends = {p: end for p, end in core.state.ends.items() if p in topic.partitions}
    topic = advance_to_counts(core.cluster, topic, ends, counts=counts)
    differences = tuple(f"partition {p}: {told}" for p in sorted(cut) for told in _differences(p, topic, mirror, bronze))
    return TransportCount(topic.records, mirror.records, sum(bronze.rows.get(p, 0) for p in cut), differences, topic, mirror)


def _differences(partition: int, topic: TopicTally, mirror: TopicTally, bronze: BronzeCut) -> Iterator[str]:
    """What does not agree in one partition, in words."""
    here, there = topic.partitions[partition], mirror.partitions[partition]
    cut, rows = bronze.offsets[partition], bronze.rows.get(partition, 0)
    if there.next_offset != cut:
        yield f"bronze is at offset {cut}, already counted up to {there.next_offset}: bronze went back"
    if there.first == 0 and rows != there.records:
        counted = quantity(there.records, "committed record")
        yield f"{counted} in {mirror.topic} below offset {cut}, {quantity(rows, 'row')} in bronze"
    if here.records < there.records:
        yield f"{quantity(there.records, 'record')} in {mirror.topic}, only {here.records} in {topic.topic}"
    elif here.digest != there.digest:
        yield (
            f"the first {quantity(there.records, 'record')} of {mirror.topic} are not those of {topic.topic} "
            f"(digest {there.digest} against {here.digest}): a record was lost, doubled or changed on the way"
        )


def _starting_tallies(
    core_state: TopicState, lake_state: TopicState, cut: Mapping[int, int], previous: tuple[TopicTally, TopicTally] | None
) -> tuple[TopicTally, TopicTally]:
    if previous is not None:
        topic, mirror = previous
        same = topic.topic_id == core_state.topic_id and mirror.topic_id == lake_state.topic_id
        if same and set(cut) <= set(mirror.partitions) and all(mirror.partitions[p].next_offset <= cut[p] for p in cut):
            return topic, mirror
    return _from_beginning(core_state, cut), _from_beginning(lake_state, cut)


def _from_beginning(state: TopicState, cut: Mapping[int, int]) -> TopicTally:
    for partition in cut:
        begin = state.ranges[partition][0]
        if begin > 0:
            raise KafkaError(
                f"{state.name} partition {partition} begins at offset {begin}: retention has removed records that no "
                "earlier comparison had counted, so its records can no longer be counted from the beginning"
            )
    return TopicTally(state.name, state.topic_id, {p: PartitionTally(0, 0) for p in cut})
