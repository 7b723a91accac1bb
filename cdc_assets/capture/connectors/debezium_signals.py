"""What Debezium is told by signals, and what it says of its snapshots in its notification topic.

A table that no signal can name is told before one is sent.
https://debezium.io/documentation/reference/3.7/configuration/notification.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cdc_assets.clients.connector_events import ReadEvent, event_reader, read_json_event
from cdc_assets.clients.kafka import KafkaCluster, Record, TopicState
from cdc_assets.clients.kind_clients import clients_of
from cdc_assets.registry import names
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource
from spark.table.identifiers import double_quote, text_literal

_UNPARSED = re.compile(r"""[\s.'"`]""")


def collection(source: CapturedSource, table: TableId) -> str:
    """What a signal's `data-collections` has of it: a regular expression over its whole name, or that name."""
    if not source.database.signals_take_patterns:
        return names.collection(source, table)
    return r"\.".join(re.escape(name) for name in (*source.database.signal_scope, *table))


def signals_of(source: CapturedSource) -> Any:
    """The source's database, as signals are written to it."""
    signals = clients_of(source.kind_name).signals
    assert signals is not None, source.kind_name
    return signals(source.database)


def own_rows_condition(table: TableId) -> str:
    """A condition of PostgreSQL's that leaves out the rows of tables that inherit from this one."""
    return f"tableoid = {text_literal(double_quote(*table))}::regclass"


def is_unsignallable(table: TableId) -> bool:
    """Whether no signal can name the table.

    Debezium parses a name that is matched once more, without quotes (AbstractIncrementalSnapshotContext, 3.7.0): with a blank or
    a quote in it, it is passed over, and only the connector's log says so; with a dot it is another table's. A signal that has
    the name in quotes is taken, but the connector stores it without them, and its task dies of that (seen).
    """
    return any(_UNPARSED.search(name) for name in table)


INITIAL = "Initial Snapshot"
"""The aggregate of each snapshot that reads whole tables: the initial one, and blocking ones."""
INCREMENTAL = "Incremental Snapshot"
AGAIN = "again-"
"""How the signals of `cdc snapshot` begin, and so the ids of what is said of them: whole tables, without a condition."""
PART = "part-"
"""The same, for the rows that a condition names."""
SOME_ROWS = ("heal-", PART)
"""How the signals begin that ask for some rows of a table."""
FINE = ("SUCCEEDED", "EMPTY")
# Of one moment: a snapshot begins, then its tables are read, then it ends; or none begins.
_ORDER = ("STARTED", "IN_PROGRESS", "TABLE_SCAN_COMPLETED", "COMPLETED", "ABORTED", "SKIPPED")


@dataclass(frozen=True)
class Notification:
    """One message of the topic; `at_ms` is when it was sent, by the clock that also wrote the rows' records."""

    id: str
    aggregate: str
    type: str
    data: dict[str, str]
    at_ms: int = 0
    scope: tuple[str, ...] = ()
    """What the connector says before schema and table: SQL Server's and Oracle's their database."""

    @classmethod
    def of(cls, record: Record, read: ReadEvent = read_json_event, scope: tuple[str, ...] = ()) -> Notification:
        """From its record in the topic."""
        value = read(record.value)
        data = value.get("additional_data") or {}
        return cls(value["id"], value["aggregate_type"], value["type"], data, record.timestamp, scope)

    @property
    def table(self) -> str:
        """The table that was read: `schema.table`; empty where it is about another thing."""
        collection_name = self.data.get("scanned_collection", "") if self.type == "TABLE_SCAN_COMPLETED" else ""
        return collection_name.removeprefix("".join(f"{name}." for name in self.scope))

    @property
    def is_table_again(self) -> bool:
        """Whether `cdc snapshot` has read a whole table again, by chunks."""
        return (
            self.aggregate == INCREMENTAL and self.id.startswith(AGAIN) and bool(self.table) and self.data.get("status") in FINE
        )

    @property
    def tells_rows(self) -> bool:
        """Whether it says how many rows were read."""
        return "total_rows_scanned" in self.data

    @property
    def rows(self) -> int:
        """How many rows of it were read."""
        return int(self.data.get("total_rows_scanned") or 0)


@dataclass(frozen=True)
class KeptNotifications:
    """What a connector has said of its snapshots, as far as it is kept, in order.

    Nothing is missing from `whole_since` on (ms; retention may have removed what was before). None: something always is.
    """

    said: tuple[Notification, ...] = ()
    whole_since: int | None = 0

    @property
    def whole(self) -> tuple[Notification, ...]:
        """Those since which nothing is missing."""
        since = self.whole_since
        return () if since is None else tuple(notification for notification in self.said if notification.at_ms >= since)


def in_order(said: Iterable[Notification]) -> tuple[Notification, ...]:
    """What tells of whole snapshots and tables, by time: partitions give it in any order."""
    of_tables = (notification for notification in said if notification.type in _ORDER)
    return tuple(sorted(of_tables, key=lambda each: (each.at_ms, _ORDER.index(each.type))))


def read_notifications(core: KafkaCluster, sources: Iterable[BaseSource]) -> dict[str, KeptNotifications]:
    """By source, of those that a connector captures and whose topic there is: all topics in one read.
    Raises ServiceError: one of them cannot be read."""
    topics = {names.notification_topic(source): source.captured for source in sources if source.captured}
    states = core.states(list(topics))
    records_of: dict[str, list[Record]] = {topic: [] for topic in states}
    for topic, record in core.records_of({topic: state.ranges for topic, state in states.items()}):
        records_of[topic].append(record)
    return {topics[topic].name: _notifications(records, states[topic], topics[topic]) for topic, records in records_of.items()}


def _notifications(records: list[Record], state: TopicState, source: CapturedSource) -> KeptNotifications:
    oldest: dict[int, int] = {}
    for record in records:
        oldest.setdefault(record.partition, record.timestamp)
    read, scope = event_reader(source), source.database.signal_scope
    # Where retention has removed records they are whole from the oldest that is left; 0: nothing was removed.
    cut = [partition for partition, (begin, _) in state.ranges.items() if begin]
    whole_since = max((oldest[p] for p in cut), default=0) if all(p in oldest for p in cut) else None
    return KeptNotifications(in_order(Notification.of(record, read, scope) for record in records), whole_since)
