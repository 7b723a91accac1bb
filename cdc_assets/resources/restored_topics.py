"""Which topics of the lake's cluster were made again from a backup, and where each goes on: one Delta table of the lake.

It is committed once a topic is whole and before anybody reads it. A topic is told by Kafka's id, so one that is deleted and made
again by others is not taken for it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from cdc_assets.resources.delta_dataset import open_dataset
from cdc_assets.resources.delta_log import open_table
from cdc_assets.resources.read_logs import unless_changed
from spark.errors import LeftToSparkError
from spark.kafka.moved_offsets import Moves

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
        (each.source, each.topic, each.topic_id, each.continues, partition, kafkas, ours)
        for each in topics
        for partition, moves in sorted(each.moves.items())
        for kafkas, ours in moves
    ]
    types = (pa.string(), pa.string(), pa.string(), pa.string(), pa.int32(), pa.int64(), pa.int64())
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), types, strict=True)]
    table = pa.table(columns, names=list(_COLUMNS))
    _append(path, table)


def _append(path: str, rows: pa.Table) -> None:
    """By ourselves: in an object store delta-rs repeats a commit that was not answered as the next version, and it does not write
    to gs:// at all."""
    from spark.delta.data_files import write_file
    from spark.delta.first_commit import create_table_of_files
    from spark.delta.local_log import newest_commits
    from spark.delta.put_commit import commit_info, put_commit
    from spark.lake.folder import open_folder

    folder, told = open_folder(path), json.dumps({"operation_id": uuid.uuid4().hex})
    folder.make()
    file = write_file(folder, rows)
    while True:
        newest = newest_commits(path, 1)
        try:
            if newest is None:
                create_table_of_files(path, rows.schema, [file], {}, told)
            else:
                info = commit_info("WRITE", told, {"numFiles": 1, "numOutputRows": rows.num_rows}, {"mode": "Append"})
                put_commit(path, newest[0]["version"] + 1, [info, {"add": file}])
            return
        except LeftToSparkError:
            # Somebody else has committed that version: ours is the next.
            continue


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
