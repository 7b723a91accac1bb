"""Tables are read whole again, and their topics go on in the next epoch: where the lake's topics lost what bronze had not
read.

A topic that was made again may begin with its whole table, since a connector without offsets reads each table first; then
no snapshot is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass

from cdc_assets.capture.connectors.debezium_signals import FINE, INITIAL, KeptNotifications, read_notifications
from cdc_assets.capture.named_log_position import carry_named
from cdc_assets.capture.onboarding import onboarding_run as onboarding
from cdc_assets.chain.bronze_append import AppendPlan, TopicSlice, append, look
from cdc_assets.chain.offset_ranges import pending_ranges
from cdc_assets.clients.connector_events import ReadEvent, event_reader
from cdc_assets.clients.source_chain import Chain, Say
from cdc_assets.clients.table_concurrency import table_lock
from cdc_assets.registry import names
from cdc_assets.registry.errors import TopicGapError
from cdc_assets.registry.kinds import kind_of, names_with
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource
from cdc_assets.registry.table_declaration import Table
from spark.record_formats import TOO_LARGE

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
    readings: dict[str, WholeReading] = {}
    read: dict[str, int] = {}
    began: int | None = None
    for notification in said.whole:
        if notification.aggregate != INITIAL:
            continue
        if notification.type == "STARTED":
            began, read = notification.at_ms, {}
        elif notification.table and notification.tells_rows and notification.data.get("status") in FINE:
            read[notification.table] = notification.rows
        elif notification.type == "COMPLETED" and began is not None:
            readings |= {table: WholeReading(rows, began, notification.at_ms) for table, rows in read.items()}
            began = None
        elif notification.type == "ABORTED":
            began = None
    return readings


def whole_tables(chain: Chain[BaseSource], tables: Sequence[Table]) -> set[str]:
    """The lake's topics, of these tables, that begin with the whole table. Each is read once.

    So it is where Kafka and Connect are new. The connector says how many rows its snapshot has read, and when. If the lake's
    topic has all its offsets, and so many rows of that snapshot, an epoch that begins there begins with the whole table.
    Nothing is to be read again then, and a table without a key, which no snapshot by chunks can read, is whole too.

    Events of before that the slot sends once more come behind the rows, at places below them: silver takes each key's newest.

    Raises ServiceError: a cluster cannot be asked.
    """
    if chain.source.captured is None or not tables:
        return set()
    notifications = read_notifications(chain.platform.core_kafka(chain.source.cluster), [chain.source]).get(
        chain.source.name, KeptNotifications()
    )
    readings, lake = whole_readings(notifications), chain.platform.lake_kafka()
    whole, read = set(), event_reader(chain.source)
    states = lake.states([names.lake_topic(chain.source, table) for table in tables])
    for table in tables:
        topic, reading = names.lake_topic(chain.source, table), readings.get(".".join(table.id))
        state = states.get(topic)
        if reading is None or state is None or any(begin for begin, _ in state.ranges.values()):
            continue
        records = lake.records_of({topic: state.ranges}, deadline=_READ_WITHIN_SECONDS)
        within = (r.value for _, r in records if reading.began_ms <= r.timestamp <= reading.ended_ms)
        if count_snapshot_rows(within, read) >= reading.rows:
            whole.add(topic)
    return whole


def count_snapshot_rows(values: Iterable[bytes | None], read: ReadEvent) -> int:
    """How many of the records are rows that a snapshot has read, or too large to say so; what is no event is none."""
    return sum(value is not None and _is_snapshot_row(value, read) for value in values)


def _is_snapshot_row(value: bytes, read: ReadEvent) -> bool:
    if value.startswith(TOO_LARGE.encode()):
        return True
    try:
        event = read(value)
        return event["op"] == "r" and str(event["source"]["snapshot"]) in _OF_A_SNAPSHOT
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


_CARRY_DEADLINE_SECONDS = 3600.0


@dataclass(frozen=True)
class TableReload:
    """What bronze has met in a table's topic; `wanted`: the table is to be read again. `epoch`: that of bronze now."""

    table: Table
    topic: str
    gap: str | None
    epoch: int
    wanted: bool
    is_first: bool
    """Bronze has nothing of the topic, so its first epoch begins."""
    is_there: bool = False
    """The topic begins with the whole table, so nothing is read: cdc_assets.chain.table_reload."""

    @property
    def next_epoch(self) -> int:
        """In which bronze goes on if the table is read again."""
        return self.epoch + (not self.is_first)


@dataclass(frozen=True)
class KnownTopics:
    """What is known of topics before tables are read again.

    Of an `intact` one the epoch begins where bronze stands, and nobody else may append meanwhile; of another at the topic's
    begin. One that is `there` begins with its whole table: it is taken as it is.
    """

    intact: Set[str] = frozenset()
    there: Set[str] = frozenset()


def plan_reloads(chain: Chain[BaseSource], tables: Sequence[Table], *, anew: bool = False) -> list[TableReload]:
    """In the order of the tables; `anew`: also those of which nothing is lost, where bronze has their topics."""
    append_plan = look(chain, tables)
    there = whole_tables(chain, [table for table in tables if names.lake_topic(chain.source, table) in append_plan.gaps])
    plans = []
    for table in tables:
        topic = names.lake_topic(chain.source, table)
        before = append_plan.before.get(topic)
        is_wanted = topic in append_plan.gaps or (anew and before is not None and topic not in append_plan.missing)
        gap = append_plan.gaps.get(topic) or append_plan.missing.get(topic)
        plans.append(TableReload(table, topic, gap, before.epoch if before else 0, is_wanted, before is None, topic in there))
    return plans


def ask_source(source: BaseSource, trouble: str) -> CapturedSource:
    """The source, whose tables can be read again. Raises TopicGapError: they cannot; begins with the trouble."""
    own = source.captured
    if own is None:
        raise TopicGapError(f"{trouble}; but nobody can be asked to send a topic's records again")
    if not kind_of(own).tells_log:
        kinds = ", ".join(names_with(lambda kind: kind.tells_log))
        why = f"this reads tables of {kinds} again, not of kind {own.database.kind}"
        raise TopicGapError(f"{trouble}; but {why}; cdc reconcile {own.name} names what differs")
    return own


def append_rest(chain: Chain[BaseSource], tables: Sequence[Table], say: Say) -> None:
    """What the tables' topics hold is in bronze, in the epoch in which it stands."""
    with ExitStack() as locks:
        for name in sorted(map(names.table_name, tables)):
            locks.enter_context(table_lock("bronze", chain.source.name, name))
        append(chain, look(chain, tables), "repair", say)


def reload_bronze(chain: Chain[CapturedSource], plans: Sequence[TableReload], say: Say) -> dict[str, int]:
    """Do what is planned, under the locks of the tables' bronze; by topic, the epoch in which bronze goes on.

    The order is what makes it safe: the rows are in the lake's topic before the epoch's first record is committed, so an epoch
    holds the whole table (spark.silver.keyed_batch.SilverRun.floor relies on that). A crash between the two costs a second
    reading of the tables.
    """
    tables = [plan.table for plan in plans]
    with ExitStack() as locks:
        for name in sorted(map(names.table_name, tables)):
            locks.enter_context(table_lock("bronze", chain.source.name, name))
        plan_now = look(chain, tables)
        intact = {plan.topic for plan in plans if plan.topic not in plan_now.gaps}
        there = {plan.topic for plan in plans if plan.is_there} - intact
        parts = reload_tables(chain, tables, plan_now, say, KnownTopics(intact, there))
        append(chain, AppendPlan(plan_now.before, parts), "repair", say)
    return {topic: topic_slice.epoch for topic, topic_slice in parts.items()}


def reload_tables(
    chain: Chain[CapturedSource], tables: Sequence[Table], found: AppendPlan, say: Say, known: KnownTopics
) -> dict[str, TopicSlice]:
    """Read tables whole again, by one snapshot, and wait until their rows are in the lake's topics.

    What bronze is to read of each topic then. Where bronze has nothing of a topic its first epoch begins.

    Raises CdcAssetsError: from a step of the reading, which `cdc onboard SOURCE --resume` goes on with; RefusalError: nobody can
    say when the rows have come.
    """
    if late := [table for table in tables if names.lake_topic(chain.source, table) not in known.there]:
        _read_again(chain, late, say)
    return {names.lake_topic(chain.source, table): _next_epoch(chain, table, found, intact=known.intact) for table in tables}


def _read_again(chain: Chain[CapturedSource], tables: Sequence[Table], say: Say) -> None:
    say(f"reading {', '.join(table.name for table in tables)} again")
    onboarding.begin(chain.source.name, [table.name for table in tables], "incremental", again=True)
    onboarding.go_on(chain.platform, chain.source.name, say)
    carry_named(
        Chain(chain.platform, chain.source.model_copy(update={"tables": tuple(tables)})),
        deadline=_CARRY_DEADLINE_SECONDS,
        say=say,
    )


def _next_epoch(chain: Chain[CapturedSource], table: Table, plan: AppendPlan, *, intact: Set[str]) -> TopicSlice:
    topic = names.lake_topic(chain.source, table)
    state = chain.platform.lake_kafka().await_state(topic, deadline=_CARRY_DEADLINE_SECONDS)
    before = plan.before.get(topic)
    positions, topic_id = (before.positions, before.topic_id) if before and topic in intact else (None, None)
    return TopicSlice(
        table, state, before.epoch + 1 if before else 0, pending_ranges(state, positions=positions, topic_id=topic_id)
    )


def close_gap(chain: Chain[BaseSource], found: AppendPlan, topic: str, say: Say) -> TopicSlice:
    """What bronze is to read of a topic that contradicts it, as the source declares to treat that.
    Raises TopicGapError: it is declared to fail; CdcAssetsError: the table could not be read again."""
    if chain.source.topics.on_gap == "fail" or chain.source.asked is None:
        raise TopicGapError(found.gaps[topic])
    table = next(table for table in chain.source.tables if names.lake_topic(chain.source, table) == topic)
    there = whole_tables(chain, [table])
    if there:
        say(f"{topic} begins with the whole table")
    return reload_tables(Chain(chain.platform, chain.source.asked), [table], found, say, KnownTopics(there=there))[topic]
