"""Which topics of the lake's cluster were made again from a backup, and where each goes on: one Delta table of the lake.

It is committed once a topic is whole and before anybody reads it. A topic is told by Kafka's id, so one that is deleted and made
again by others is not taken for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from cdc_assets.resources.delta_dataset import open_dataset
from cdc_assets.resources.delta_log import open_table
from cdc_assets.resources.read_logs import unless_changed
from spark.kafka.moved_offsets import Moves
from spark.lake.store_options import delta_options

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
    from deltalake import write_deltalake

    rows = [
        (each.source, each.topic, each.topic_id, each.continues, partition, kafkas, ours)
        for each in topics
        for partition, moves in sorted(each.moves.items())
        for kafkas, ours in moves
    ]
    types = (pa.string(), pa.string(), pa.string(), pa.string(), pa.int32(), pa.int64(), pa.int64())
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), types, strict=True)]
    table = pa.table(columns, names=list(_COLUMNS))
    write_deltalake(path, table, mode="append", storage_options=delta_options(path))


def _read(path: str) -> dict[str, RestoredTopic]:
    table = open_table(path)
    if table is None:
        return {}
    found: dict[str, RestoredTopic] = {}
    moves: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for row in _rows(table, path):
        moves.setdefault((row["topic_id"], row["partition"]), []).append((row["kafka_offset"], row["offset"]))
        found[row["topic_id"]] = RestoredTopic(row["source"], row["topic"], row["topic_id"], row["continues"], {})
    of: dict[str, dict[int, Moves]] = {name: {} for name in found}
    for (topic_id, partition), pairs in moves.items():
        of[topic_id][partition] = tuple(sorted(pairs, key=itemgetter(0)))
    return {name: RestoredTopic(each.source, each.topic, name, each.continues, of[name]) for name, each in found.items()}


def _rows(table: Any, path: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = open_dataset(table, path).to_table().to_pylist()
    return rows
