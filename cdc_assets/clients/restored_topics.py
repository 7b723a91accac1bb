"""The lake's Kafka cluster. A topic made again from a backup has here the id and the offsets of the one before it.

So whoever compares offsets (bronze, counts, the ledger, lags) goes on as if that topic had never been away. Spark's jobs read by
Kafka's own offsets, which each range of theirs says (TopicState.moves_of). Where each such topic goes on lies in one Delta table
of the lake, committed once the topic is whole and before anybody reads it. A topic is told by Kafka's id, so one that is deleted
and made again by others is not taken for it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from cdc_assets.clients.delta_log import open_table, unless_changed
from cdc_assets.clients.delta_rows import open_dataset
from cdc_assets.clients.kafka import KafkaCluster, Offsets, Record, TopicState
from spark.errors import LeftToSparkError
from spark.events.moved_offsets import Moves, kafka_offset, our_offset

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS = ("source", "topic", "topic_id", "continues", "partition", "kafka_offset", "offset")


@dataclass(frozen=True)
class RestoredTopic:
    """A topic by Kafka's id of it; `continues` is the id of the one whose offsets go on in it, by partition with `moves`."""

    source: str
    topic: str
    topic_id: str
    continues: str
    moves: Mapping[int, Moves]


def read_restored_topics(path: str) -> Mapping[str, RestoredTopic]:
    """By Kafka's ids; empty where none was ever made again."""
    return unless_changed(_read, path)


def record_restored(path: str, topics: Sequence[RestoredTopic]) -> None:
    """Commit these topics, all at once: from now on they are read as what they continue."""
    import pyarrow as pa

    rows = [
        (topic.source, topic.topic, topic.topic_id, topic.continues, partition, kafkas, ours)
        for topic in topics
        for partition, moves in sorted(topic.moves.items())
        for kafkas, ours in moves
    ]
    types = (pa.string(), pa.string(), pa.string(), pa.string(), pa.int32(), pa.int64(), pa.int64())
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), types, strict=True)]
    table = pa.table(columns, names=list(_COLUMNS))
    _append(path, table)


def _append(path: str, rows: pa.Table) -> None:
    """By ourselves: in an object store delta-rs repeats a commit that was not answered as the next version, and it does not write
    to gs:// at all."""
    from spark.table.data_files import write_file
    from spark.table.delta_table import commit_info, table_of
    from spark.table.table_folder import open_folder

    folder, operation = open_folder(path), json.dumps({"operation_id": uuid.uuid4().hex})
    folder.make()
    file = write_file(folder, rows)
    while True:
        newest = table_of(path).commits(1)
        try:
            if not newest:
                table_of(path).create_of_files(rows.schema, [file], {}, operation)
            else:
                info = commit_info("WRITE", operation, {"numFiles": 1, "numOutputRows": rows.num_rows}, {"mode": "Append"})
                table_of(path).put(newest[0]["version"] + 1, [info, {"add": file}])
            return
        except LeftToSparkError:
            # Somebody else has committed that version: ours is the next.
            continue


def _read(path: str) -> dict[str, RestoredTopic]:
    table = open_table(path)
    if table is None:
        return {}
    topics: dict[str, RestoredTopic] = {}
    moves: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for row in _rows(table, path):
        moves.setdefault((row["topic_id"], row["partition"]), []).append((row["kafka_offset"], row["offset"]))
        topics[row["topic_id"]] = RestoredTopic(row["source"], row["topic"], row["topic_id"], row["continues"], {})
    of: dict[str, dict[int, Moves]] = {name: {} for name in topics}
    for (topic_id, partition), pairs in moves.items():
        of[topic_id][partition] = tuple(sorted(pairs, key=itemgetter(0)))
    return {name: RestoredTopic(topic.source, topic.topic, name, topic.continues, of[name]) for name, topic in topics.items()}


def _rows(table: Any, path: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = open_dataset(table, path).to_table().to_pylist()
    return rows


class LakeKafka(KafkaCluster):
    """`restored` answers by Kafka's ids; it is asked each time, and answers from memory where nothing has changed."""

    def __init__(
        self, bootstrap: str, *, login: str = "", restored: Callable[[], Mapping[str, RestoredTopic]], timeout: float = 20.0
    ) -> None:
        super().__init__(bootstrap, login=login, timeout=timeout)
        self._restored = restored

    def states(self, topics: Sequence[str]) -> dict[str, TopicState]:
        """The state of each topic that exists, in our offsets."""
        states, restored = super().states(topics), self._restored()
        return {name: _as_before(state, restored.get(state.topic_id)) for name, state in states.items()}

    def high_watermarks(self, topics: Sequence[str]) -> Offsets:
        """Per partition the end of what is written and replicated, in our offsets."""
        watermarks = super().high_watermarks(topics)
        moves = self._moves(list(watermarks))
        return {
            topic: {p: our_offset(moves[topic].get(p, ()), end) for p, end in ends.items()} if topic in moves else ends
            for topic, ends in watermarks.items()
        }

    def records_of(
        self, topics: Mapping[str, Mapping[int, tuple[int, int]]], *, deadline: float = 120.0
    ) -> Iterator[tuple[str, Record]]:
        """Every committed record of ranges of our offsets."""
        moves = self._moves(list(topics))
        kafka_ranges = {
            topic: {p: _kafka_range(moves.get(topic, {}).get(p, ()), bounds) for p, bounds in ranges.items()}
            for topic, ranges in topics.items()
        }
        for topic, record in super().records_of(kafka_ranges, deadline=deadline):
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
