"""What a Debezium connector says of its snapshots in its notification topic.

https://debezium.io/documentation/reference/3.7/configuration/notification.html
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cdc_assets import names
from cdc_assets.registry.models import BaseSource, CapturedSource
from cdc_assets.resources.captured_events import ReadEvent, event_reader, read_json_event
from cdc_assets.resources.kafka import KafkaCluster, Record, TopicState

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
        told = self.data.get("scanned_collection", "") if self.type == "TABLE_SCAN_COMPLETED" else ""
        return told.removeprefix("".join(f"{part}." for part in self.scope))

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
        return () if since is None else tuple(each for each in self.said if each.at_ms >= since)


def in_order(said: Iterable[Notification]) -> tuple[Notification, ...]:
    """What tells of whole snapshots and tables, by time: partitions give it in any order."""
    known = (each for each in said if each.type in _ORDER)
    return tuple(sorted(known, key=lambda each: (each.at_ms, _ORDER.index(each.type))))


def read_notifications(core: KafkaCluster, sources: Iterable[BaseSource]) -> dict[str, KeptNotifications]:
    """By source, of those that a connector captures and whose topic there is: all topics in one read.

    Raises:
        KafkaError: one of them cannot be read.
    """
    topics = {names.notification_topic(source): source.captured for source in sources if source.captured}
    states = core.states(list(topics))
    found: dict[str, list[Record]] = {topic: [] for topic in states}
    for topic, record in core.records_of({topic: state.ranges for topic, state in states.items()}):
        found[topic].append(record)
    return {topics[topic].name: _notifications(records, states[topic], topics[topic]) for topic, records in found.items()}


def _notifications(records: list[Record], state: TopicState, source: CapturedSource) -> KeptNotifications:
    oldest: dict[int, int] = {}
    for record in records:
        oldest.setdefault(record.partition, record.timestamp)
    read, scope = event_reader(source), source.database.signal_scope
    return KeptNotifications(in_order(Notification.of(record, read, scope) for record in records), _whole_since(state, oldest))


def _whole_since(state: TopicState, oldest: Mapping[int, int]) -> int | None:
    """Where retention has removed records, from the oldest that is left; 0: nothing was removed."""
    cut = [partition for partition, (begin, _) in state.ranges.items() if begin]
    return max((oldest[p] for p in cut), default=0) if all(p in oldest for p in cut) else None
