"""The lake's cluster. A topic of it that was made again from a backup has here the id and the offsets of the one before it.

So whoever compares offsets (bronze, counts, the ledger, lags) goes on as if that topic had never been away. Spark's jobs read by
Kafka's own offsets, which each range of theirs says (TopicState.moves_of).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from cdc_assets.resources.kafka import KafkaCluster, Offsets, Record, TopicState
from cdc_assets.resources.restored_topics import RestoredTopic
from spark.kafka.moved_offsets import kafka_offset, our_offset


class LakeKafka(KafkaCluster):
    """`restored` answers by Kafka's ids; it is asked each time, and answers from memory where nothing has changed."""

    def __init__(
        self, bootstrap: str, *, login: str = "", restored: Callable[[], Mapping[str, RestoredTopic]], timeout: float = 20.0
    ) -> None:
        super().__init__(bootstrap, login=login, timeout=timeout)
        self._restored = restored

    def states(self, topics: Sequence[str]) -> dict[str, TopicState]:
        """The state of each topic that exists, in our offsets."""
        found, restored = super().states(topics), self._restored()
        return {name: _as_before(state, restored.get(state.topic_id)) for name, state in found.items()}

    def high_watermarks(self, topics: Sequence[str]) -> Offsets:
        """Per partition the end of what is written and replicated, in our offsets."""
        found = super().high_watermarks(topics)
        moves = self._moves(list(found))
        return {
            topic: {p: our_offset(moves[topic].get(p, ()), end) for p, end in ends.items()} if topic in moves else ends
            for topic, ends in found.items()
        }

    def records_of(
        self, topics: Mapping[str, Mapping[int, tuple[int, int]]], *, deadline: float = 120.0
    ) -> Iterator[tuple[str, Record]]:
        """Every committed record of ranges of our offsets."""
        moves = self._moves(list(topics))
        asked = {
            topic: {p: _kafka_range(moves.get(topic, {}).get(p, ()), bounds) for p, bounds in ranges.items()}
            for topic, ranges in topics.items()
        }
        for topic, record in super().records_of(asked, deadline=deadline):
            of = moves.get(topic, {}).get(record.partition, ())
            yield topic, record._replace(offset=our_offset(of, record.offset)) if of else record

    def _moves(self, topics: Sequence[str]) -> dict[str, Mapping[int, tuple[tuple[int, int], ...]]]:
        if not self._restored():
            return {}
        return {name: state.moves for name, state in self.states(topics).items() if state.moves}


def _as_before(state: TopicState, restored: RestoredTopic | None) -> TopicState:
    if restored is None:
        return state
    of = {p: restored.moves.get(p, ()) for p in state.ranges}
    ranges = {p: (our_offset(of[p], begin), our_offset(of[p], end)) for p, (begin, end) in state.ranges.items()}
    return TopicState(state.name, restored.continues, ranges, of)


def _kafka_range(moves: tuple[tuple[int, int], ...], bounds: tuple[int, int]) -> tuple[int, int]:
    return (kafka_offset(moves, bounds[0]), kafka_offset(moves, bounds[1]))
