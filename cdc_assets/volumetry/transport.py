"""Committed records in topic = in mirror = in bronze, at one cut, while records keep coming.

The cut is what bronze has committed. The mirror is counted up to exactly those offsets; then the core topic is
counted up to the same number of records. MirrorMaker 2 keeps partition and order, so the first n records of
the mirror must be the first n of the topic, byte for byte (count and digest): a record lost in the middle shows
even when others have come since. Bronze's rows are counted in the Delta table by a reader that is not Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
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


def count_transport(
    *,
    core: KafkaCluster,
    lake: KafkaCluster,
    core_state: TopicState,
    lake_state: TopicState,
    cut: Mapping[int, int],
    bronze_rows: Mapping[int, int],
    previous: tuple[TopicTally, TopicTally] | None,
) -> TransportCount:
    """Compare one table's topic, mirror and bronze at `cut` ({partition: offset on the lake's cluster}).

    `bronze_rows` are the rows below the cut per partition. `previous` are the tallies of the last comparison;
    they are a cache: without them both topics are counted from their beginning.
    """
    topic, mirror = _starting_tallies(core_state, lake_state, cut, previous)
    mirror = advance_to_offsets(lake, mirror, {p: max(end, mirror.partitions[p].next_offset) for p, end in cut.items()})
    counts = {p: tally.records for p, tally in mirror.partitions.items()}
    ends = {p: end for p, end in core_state.ends.items() if p in topic.partitions}
    topic = advance_to_counts(core, topic, ends, counts=counts)

    differences = []
    for p in sorted(cut):
        here, there, rows = topic.partitions[p], mirror.partitions[p], bronze_rows.get(p, 0)
        if there.next_offset != cut[p]:
            differences.append(
                f"partition {p}: bronze is at offset {cut[p]}, already counted up to {there.next_offset}: bronze went back"
            )
        if there.first == 0 and rows != there.records:
            differences.append(
                f"partition {p}: {quantity(there.records, 'committed record')} in {mirror.topic}"
                f" below offset {cut[p]}, {quantity(rows, 'row')} in bronze"
            )
        if here.records < there.records:
            differences.append(
                f"partition {p}: {quantity(there.records, 'record')} in {mirror.topic}, only {here.records} in {topic.topic}"
            )
        elif here.digest != there.digest:
            differences.append(
                f"partition {p}: the first {quantity(there.records, 'record')} of {mirror.topic} are not those of {topic.topic} "
                f"(digest {there.digest} against {here.digest}): a record was lost, doubled or changed on the way"
            )
    return TransportCount(
        topic.records, mirror.records, sum(bronze_rows.get(p, 0) for p in cut), tuple(differences), topic, mirror
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
