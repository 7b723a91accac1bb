"""Success with nothing done: a connector that runs while changes of the source do not become events, a first snapshot that
it has begun and gone on without, a table with rows and no record in its topic.
"""

from __future__ import annotations

import datetime as dt
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from cdc_assets.capture.connectors.debezium_signals import (
    FINE,
    INCREMENTAL,
    INITIAL,
    SOME_ROWS,
    KeptNotifications,
    Notification,
    read_notifications,
)
from cdc_assets.capture.connectors.declared_connectors import capture_config
from cdc_assets.capture.log_position import await_in_core
from cdc_assets.clients.connect import ConnectClient
from cdc_assets.clients.connector_events import ReadEvent, event_reader
from cdc_assets.clients.databases.catalogue import SourceDatabase
from cdc_assets.clients.kafka import KafkaCluster, Record, TopicState
from cdc_assets.proof.unsent_changes import UnsentChanges
from cdc_assets.registry import names
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity

States = Mapping[str, TopicState]


@dataclass(frozen=True)
class LostSnapshot:
    """When the newest that was lost began (0: none was), and when each table (`schema.table`) was last read whole.

    Debezium stores an empty offset with its notification that a snapshot begins (connector_restart). Killed or failed before
    its first table, it skips the snapshot at its next start, and says so. A snapshot that was killed later begins anew. One
    that was asked for by a signal has named a table by then, and whoever has asked for it is told.
    """

    began_ms: int = 0
    read_ms: Mapping[str, int] = field(default_factory=dict)

    def tables(self, source: BaseSource) -> list[Table]:
        """Those of which no row of the time before has come."""
        return [table for table in source.tables if self.read_ms.get(".".join(table.id), 0) < self.began_ms]

    def message(self, source: BaseSource, table: Table) -> str:
        """What is wrong, and the command that reads the table."""
        began = dt.datetime.fromtimestamp(self.began_ms / 1000, dt.timezone.utc)
        return (
            f"the first snapshot of connector {names.connector_name(source)}, begun {began:%Y-%m-%d %H:%M:%S} UTC, was never "
            f"completed, and the connector has gone on without it: rows of before are missing; ./cdc snapshot {source.name} "
            f"{table.name} reads them"
        )


def read_lost_snapshots(core: KafkaCluster, sources: Sequence[BaseSource]) -> dict[str, LostSnapshot]:
    """By source, what the connectors' notifications tell, in one read; of one that begins without a snapshot none is missed."""
    with_snapshot = [source for source in sources if source.captured and source.captured.capture.snapshot == "initial"]
    notifications = read_notifications(core, with_snapshot)
    return {source.name: lost_snapshot(notifications.get(source.name, KeptNotifications())) for source in sources}


def lost_snapshot(said: KeptNotifications) -> LostSnapshot:
    """From what the connector has said since nothing of it is missing."""
    began = lost = before = 0
    read: dict[str, int] = {}
    for notification in said.whole:
        if notification.table and notification.data.get("status") in FINE and _is_whole(notification):
            read[notification.table] = notification.at_ms
        if notification.aggregate != INITIAL:
            continue
        if notification.type == "STARTED":
            began, before = notification.at_ms, lost
        elif notification.type == "SKIPPED":
            lost, began = began or lost, 0
        elif notification.type != "ABORTED":
            # It goes on: what was skipped meanwhile is another connector's (onboarding has one beside the source's own).
            began, lost = 0, before
    return LostSnapshot(lost, read)


def _is_whole(scan: Notification) -> bool:
    """Heals and conditions read some rows of a table; all else reads it whole."""
    return scan.aggregate == INITIAL or (scan.aggregate == INCREMENTAL and not scan.id.startswith(SOME_ROWS))


@dataclass(frozen=True)
class Unheard:
    """A table, and how many rows it had at the source when no record of it had come."""

    table: Table
    rows: int

    def message(self, source: BaseSource) -> str:
        """What is wrong, and the command that reads the table."""
        return (
            f"{quantity(self.rows, 'row')} at the source and no record in topic {names.topic(source, self.table)}: "
            f"./cdc snapshot {source.name} {self.table.name} reads them"
        )


def rows_without_records(source: BaseSource, database: SourceDatabase, states: States) -> tuple[Unheard, ...]:
    """Tables that have rows now while their topics, as seen before (`states`), have never had a record.

    A connector that takes no snapshot (`capture: {snapshot: no_data}`) sends changes alone: rows without records are right.

    A table that the connector does not list, or whose name Debezium or Kafka cannot carry, has no lag and no failure. So the
    source is asked for its rows first, and the topic is looked at again once everything committed by then has come.
    """
    if source.captured is None or source.captured.capture.snapshot == "no_data":
        return ()
    silent = without_records(source, source.tables, states)
    if not silent:
        return ()
    there = database.tables([table.id for table in silent])
    counts = _readable_counts(database, [table.id for table in silent if table.id in there])
    return tuple(Unheard(table, counts[table.id]) for table in silent if counts.get(table.id))


def _readable_counts(database: SourceDatabase, ids: Sequence[TableId]) -> Mapping[TableId, int]:
    # One that the role may not read has no count, and is preflight's to tell: the others are asked for all the same.
    try:
        return database.counts(ids)[1]
    except DatabaseError:
        if len(ids) < 2:
            return {}
    return {id_: count for table in ids for id_, count in _readable_counts(database, [table]).items()}


def still_unheard(source: BaseSource, found: Sequence[Unheard], states: States) -> tuple[Unheard, ...]:
    """Those of which still no record has come; `states` are of a time when everything committed before `found` has."""
    silent = {table.name for table in without_records(source, [unheard_table.table for unheard_table in found], states)}
    return tuple(unheard_table for unheard_table in found if unheard_table.table.name in silent)


def without_records(source: BaseSource, tables: Sequence[Table], states: States) -> list[Table]:
    """Tables whose topic is not there, or ends where every topic begins."""
    ends = {topic: max(state.ends.values(), default=0) for topic, state in states.items()}
    return [table for table in tables if not ends.get(names.topic(source, table))]


Baseline = Mapping[str, Any]
_PATIENCE_SECONDS = 10.0
"""A producer learns of a topic's new leader or id by the first batch that is refused, and sends it again 0.1 to 1 s later."""
_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Changes:
    """Changes at the source between two looks, by table (as far as it was asked), and the texts of those that were committed.

    `unread`: what of the source could not be looked at, in words.
    """

    counts: dict[str, int]
    committed: dict[str, str]
    unread: str = ""


class Witness(Protocol):
    """A source's own knowledge of its changes."""

    @property
    def database(self) -> SourceDatabase:
        """The source's database, opened for questions."""

    def now(self, tables: Sequence[Table]) -> dict[str, Any]:
        """What the next check needs of this moment, as JSON."""

    def follows(self, before: Baseline, now: Baseline) -> bool:
        """Whether the two can be compared."""

    def behind(self, source: Mapping[str, Any], before: Baseline) -> bool:
        """Whether an event with this `source` block was written after that moment."""

    def changes(self, tables: Sequence[Table], quiet: Sequence[Table], before: Baseline, now: Baseline) -> Changes:
        """What has changed between the two; `quiet` are the tables without events."""

    def unsent(self, source: CapturedSource, connect: ConnectClient, before: Baseline | None) -> UnsentChanges:
        """Changes of rows in the log that the connector sends no event for, remembered until they were compared."""

    def tables_outside_log(self, source: CapturedSource, config: Mapping[str, str]) -> dict[str, str]:
        """Tables that the log does not carry, with the reason."""


@dataclass(frozen=True)
class Flow:
    """What a check found: one text per silent table, changes and events per table, and what the next one starts from.

    1. Where the topics end, then what the source itself knows of its changes (`witness`) is read: the next check starts from
       there.
    2. A marker is written into the log and awaited in its topic: what the source has committed by then has been sent, if it was
       to be sent at all. Kafka may have the marker first, where another topic has a new leader or was made again: the
       connector's producer sends a refused batch again, and those of other topics meanwhile. A table that seems silent is
       looked at again.
    3. A table that has changed since the last check that passed must have a committed event of a place in the log behind that
       check's. Before a table without events is called silent, its source must say that something was committed. A topic with
       another id is another topic: it is read from its begin.

    Found at once, without counters: a table that the log does not carry, or that is not in the list of the connector that runs;
    one that has rows and no record in its topic (`Unheard`); and all whose first snapshot never completed (`LostSnapshot`).

    A change that the log holds in a form for which no event is sent counts on no side: the log is read for these
    (unsent_changes.py).
    """

    silent: dict[str, str]
    changes: dict[str, int] = field(default_factory=dict)
    events: dict[str, bool] = field(default_factory=dict)
    baseline: dict[str, Any] = field(default_factory=dict)
    unread: str = ""


def measure_flow(
    source: CapturedSource,
    *,
    witness: Witness,
    core: KafkaCluster,
    connect: ConnectClient,
    previous: Baseline | None,
    deadline: float = 60.0,
) -> Flow:
    """Compare the source's changes with the committed events since `previous`, the baseline of the last passed check.

    Raises:
        CaughtUpTimeoutError: not even the marker comes through.
    """
    topics = {table.name: names.topic(source, table) for table in source.tables}
    # Before the source is asked: an event of a change that the source does not know of yet lies behind these ends.
    before = core.states(list(topics.values()))
    unheard = rows_without_records(source, witness.database, before)
    now = witness.now(source.tables)
    await_in_core(source, database=witness.database, core=core, core_connect=connect, deadline=deadline)
    after = core.states(list(topics.values()))
    silent = {unheard_table.table.name: unheard_table.message(source) for unheard_table in still_unheard(source, unheard, after)}
    lost = read_lost_snapshots(core, [source])[source.name]
    silent = {table.name: lost.message(source, table) for table in lost.tables(source)} | silent
    silent |= _silent_tables(source, witness, connect.config(names.connector_name(source)))
    ends = {topic: {str(p): end for p, end in state.ends.items()} for topic, state in before.items()}
    baseline = {**now, "ends": ends, "ids": {topic: state.topic_id for topic, state in before.items()}}
    if previous is None or not witness.follows(previous, now):
        return Flow(silent, baseline=baseline)
    is_behind, states = _Behind(witness, previous, event_reader(source)), {t: after.get(topics[t]) for t in topics}
    events = {name: state is not None and _any(core, state, previous, is_behind) for name, state in states.items()}
    quiet = [table for table in source.tables if not events[table.name]]
    changes = witness.changes(source.tables, quiet, previous, now)
    seeming = {name: topics[name] for name in changes.committed if name not in silent}
    late = _late_events(core, seeming, previous, is_behind)
    for name in changes.committed.keys() - late:
        silent.setdefault(
            name, f"{changes.committed[name]}, and no event in topic {topics[name]}{_another(after.get(topics[name]), previous)}"
        )
    return Flow(silent, changes.counts, events | dict.fromkeys(late, True), baseline, changes.unread)


def _any(core: KafkaCluster, topic: TopicState, previous: Baseline, is_behind: Callable[[Record], bool]) -> bool:
    """Whether the topic holds an event behind the last check's place; one that retention has removed since counts as such."""
    ends_before = {} if _another(topic, previous) else previous["ends"].get(topic.name, {})
    ranges = {p: (int(ends_before.get(str(p), begin)), begin, end) for p, (begin, end) in topic.ranges.items()}
    if any(start < begin for start, begin, _ in ranges.values()):
        return True
    kept = {p: (start, end) for p, (start, _, end) in ranges.items() if start < end}
    return bool(kept) and any(map(is_behind, core.records(topic.name, kept)))


def _late_events(
    core: KafkaCluster, topics: Mapping[str, str], previous: Baseline, is_behind: Callable[[Record], bool]
) -> set[str]:
    """Of these tables those whose event comes within some seconds."""
    late: set[str] = set()
    end = time.monotonic() + _PATIENCE_SECONDS
    while len(late) < len(topics) and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)
        states = core.states([topic for name, topic in topics.items() if name not in late])
        late |= {name for name, topic in topics.items() if topic in states and _any(core, states[topic], previous, is_behind)}
    return late


def _another(topic: TopicState | None, previous: Baseline) -> str:
    """That the topic has been created again since: its offsets begin anew, and what the old one held is not in it."""
    before = previous.get("ids", {}).get(topic.name) if topic else None
    if topic is None or before in (None, topic.topic_id):
        return ""
    return f", which has been created again since (id {topic.topic_id}, before {before})"


@dataclass(frozen=True)
class _Behind:
    """Whether a record is an event of a place behind the last check's."""

    witness: Witness
    previous: Baseline
    read: ReadEvent

    def __call__(self, record: Record) -> bool:
        if record.value is None:
            # A tombstone: its delete lies before it.
            return False
        try:
            return self.witness.behind(self.read(record.value)["source"], self.previous)
        except (ValueError, KeyError, TypeError, AttributeError):
            # An event in another form tells no place: it came, that is all.
            return True


def _silent_tables(source: CapturedSource, witness: Witness, config: Mapping[str, str] | None) -> dict[str, str]:
    name = names.connector_name(source)
    if config is None:
        return {table.name: f"connector {name} does not exist" for table in source.tables}
    # The names that run may differ from those declared now: the connector's own config is what holds.
    listed = config.get("table.include.list", capture_config(source).get("table.include.list", ".*"))
    patterns = [re.compile(pattern, re.IGNORECASE) for pattern in listed.split(",")]
    silent = witness.tables_outside_log(source, config)
    for table in source.tables:
        if not any(pattern.fullmatch(f"{table.id.schema}.{table.id.table}") for pattern in patterns):
            silent[table.name] = (
                f"not in table.include.list of the running connector {name}: cdc preflight {source.name} says why, where apply "
                "has left it out; else materialize the connector asset"
            )
    return silent
