"""A topic that was made again may begin with its whole table: a connector without offsets reads each table first.

So it is where Kafka and Connect are new. The connector says how many rows its snapshot has read, and when. If the lake's topic
has all its offsets, and so many rows of that snapshot, an epoch that begins there begins with the whole table. Nothing is to be
read again then, and a table without a key, which no snapshot by chunks can read, is whole too.

Events of before that the slot sends once more come behind the rows, at places below them: silver takes each key's newest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cdc_assets import names
from cdc_assets.connectors.notifications import FINE, INITIAL, KeptNotifications, read_notifications
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.captured_events import ReadEvent, event_reader
from cdc_assets.resources.kafka import TopicState
from cdc_assets.resources.platform import Platform

_READ_WITHIN_SECONDS = 3600.0
# Not `incremental`: its rows come in between, and leave out what changes meanwhile.
_OF_A_SNAPSHOT = frozenset({"true", "first", "first_in_data_collection", "last_in_data_collection", "last"})


@dataclass(frozen=True)
class WholeReading:
    """Rows of a table that a snapshot has read; the time stamps (ms) of its begin and its end."""

    rows: int
    began_ms: int
    ended_ms: int


def whole_readings(said: KeptNotifications) -> dict[str, WholeReading]:
    """By table (`schema.table`) the newest reading by a snapshot that has come to its end."""
    found: dict[str, WholeReading] = {}
    read: dict[str, int] = {}
    began: int | None = None
    for each in said.whole:
        if each.aggregate != INITIAL:
            continue
        if each.type == "STARTED":
            began, read = each.at_ms, {}
        elif each.table and each.tells_rows and each.data.get("status") in FINE:
            read[each.table] = each.rows
        elif each.type == "COMPLETED" and began is not None:
            found |= {table: WholeReading(rows, began, each.at_ms) for table, rows in read.items()}
            began = None
        elif each.type == "ABORTED":
            began = None
    return found


def whole_tables(platform: Platform, source: BaseSource, tables: Sequence[Table]) -> set[str]:
    """The lake's topics, of these tables, that begin with the whole table. Each is read once.

    Raises:
        KafkaError: a cluster cannot be asked.
    """
    if source.captured is None or not tables:
        return set()
    said = read_notifications(platform.core_kafka(source.cluster), [source]).get(source.name, KeptNotifications())
    readings, lake = whole_readings(said), platform.lake_kafka()
    found, read = set(), event_reader(source)
    states = lake.states([names.lake_topic(source, table) for table in tables])
    for table in tables:
        topic, reading = names.lake_topic(source, table), readings.get(".".join(table.id))
        state = states.get(topic)
        if reading is None or state is None or not _is_from_its_begin(state):
            continue
        records = lake.records_of({topic: state.ranges}, deadline=_READ_WITHIN_SECONDS)
        within = (r.value for _, r in records if reading.began_ms <= r.timestamp <= reading.ended_ms)
        if count_snapshot_rows(within, read) >= reading.rows:
            found.add(topic)
    return found


def _is_from_its_begin(state: TopicState) -> bool:
    return all(begin == 0 for begin, _ in state.ranges.values())


def count_snapshot_rows(values: Iterable[bytes | None], read: ReadEvent) -> int:
    """How many of the records are rows that a snapshot has read; what is no event is none."""
    return sum(value is not None and _is_snapshot_row(value, read) for value in values)


def _is_snapshot_row(value: bytes, read: ReadEvent) -> bool:
    try:
        event = read(value)
        return event["op"] == "r" and str(event["source"]["snapshot"]) in _OF_A_SNAPSHOT
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
