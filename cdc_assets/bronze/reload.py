"""Tables are read whole again, and their topics go on in the next epoch: where the lake's topics lost what bronze had not read.

What needs no reading, since its new topic begins with the whole table: cdc_assets.bronze.whole_topics.

The order is what makes it safe: the rows are in the lake's topic before the epoch's first record is committed, so an
epoch holds the whole table (spark.silver.batch.SilverRun.floor relies on that). A crash between the two costs a second
reading of the tables.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass

from cdc_assets import names
from cdc_assets.bronze.append import AppendPlan, Say, TopicSlice, append, look
from cdc_assets.bronze.ranges import pending_ranges
from cdc_assets.bronze.whole_topics import whole_tables
from cdc_assets.errors import TopicGapError
from cdc_assets.kinds import kind_of, names_with
from cdc_assets.onboarding import run as onboarding
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource, CapturedSource
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.table_lock import table_lock
from cdc_assets.volumetry.named_place import carry_named

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
    """The topic begins with the whole table, so nothing is read: cdc_assets.bronze.whole_topics."""

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


def plan_reloads(platform: Platform, source: BaseSource, tables: Sequence[Table], *, anew: bool = False) -> list[TableReload]:
    """In the order of the tables; `anew`: also those of which nothing is lost, where bronze has their topics."""
    found = look(platform, source, tables)
    there = whole_tables(platform, source, [table for table in tables if names.lake_topic(source, table) in found.gaps])
    plans = []
    for table in tables:
        topic = names.lake_topic(source, table)
        known = found.before.get(topic)
        wanted = topic in found.gaps or (anew and known is not None and topic not in found.missing)
        gap = found.gaps.get(topic) or found.missing.get(topic)
        plans.append(TableReload(table, topic, gap, known.epoch if known else 0, wanted, known is None, topic in there))
    return plans


def ask_source(source: BaseSource, trouble: str) -> CapturedSource:
    """The source, whose tables can be read again.

    Raises:
        TopicGapError: they cannot; begins with the trouble.
    """
    own = source.captured
    if own is None:
        raise TopicGapError(f"{trouble}; but nobody can be asked to send a topic's records again")
    if kind_of(own).database is None:
        known = ", ".join(names_with("database"))
        why = f"this reads tables of {known} again, not of kind {own.database.kind}"
        raise TopicGapError(f"{trouble}; but {why}; cdc reconcile {own.name} names what differs")
    return own


def append_rest(platform: Platform, source: BaseSource, tables: Sequence[Table], say: Say) -> None:
    """What the tables' topics hold is in bronze, in the epoch in which it stands."""
    with ExitStack() as held:
        for name in sorted(map(names.table_name, tables)):
            held.enter_context(table_lock("bronze", source.name, name))
        append(platform, source, look(platform, source, tables), "repair", say)


def reload_bronze(platform: Platform, source: CapturedSource, plans: Sequence[TableReload], say: Say) -> dict[str, int]:
    """Do what is planned, under the locks of the tables' bronze; by topic, the epoch in which bronze goes on."""
    tables = [plan.table for plan in plans]
    with ExitStack() as held:
        for name in sorted(map(names.table_name, tables)):
            held.enter_context(table_lock("bronze", source.name, name))
        found = look(platform, source, tables)
        intact = {plan.topic for plan in plans if plan.topic not in found.gaps}
        there = {plan.topic for plan in plans if plan.is_there} - intact
        parts = reload_tables(platform, source, tables, found, say, KnownTopics(intact, there))
        append(platform, source, AppendPlan(found.before, parts), "repair", say)
    return {topic: part.epoch for topic, part in parts.items()}


def reload_tables(
    platform: Platform, source: CapturedSource, tables: Sequence[Table], found: AppendPlan, say: Say, known: KnownTopics
) -> dict[str, TopicSlice]:
    """Read tables whole again, by one snapshot, and wait until their rows are in the lake's topics.

    What bronze is to read of each topic then. Where bronze has nothing of a topic its first epoch begins.

    Raises:
        CdcAssetsError: from a step of the reading, which `cdc onboard SOURCE --resume` goes on with.
        NoPlaceError: nobody can say when the rows have come.
    """
    if late := [table for table in tables if names.lake_topic(source, table) not in known.there]:
        _read_again(platform, source, late, say)
    return {names.lake_topic(source, table): _next_epoch(platform, source, table, found, intact=known.intact) for table in tables}


def _read_again(platform: Platform, source: CapturedSource, tables: Sequence[Table], say: Say) -> None:
    say(f"reading {', '.join(table.name for table in tables)} again")
    onboarding.begin(source.name, [table.name for table in tables], "incremental", again=True)
    onboarding.go_on(platform, source.name, say)
    carry_named(platform, source.model_copy(update={"tables": tuple(tables)}), deadline=_CARRY_DEADLINE_SECONDS, say=say)


def _next_epoch(platform: Platform, source: CapturedSource, table: Table, found: AppendPlan, *, intact: Set[str]) -> TopicSlice:
    topic = names.lake_topic(source, table)
    state = platform.lake_kafka().await_state(topic, deadline=_CARRY_DEADLINE_SECONDS)
    known = found.before.get(topic)
    positions, topic_id = (known.positions, known.topic_id) if known and topic in intact else (None, None)
    return TopicSlice(
        table, state, known.epoch + 1 if known else 0, pending_ranges(state, positions=positions, topic_id=topic_id)
    )


def close_gap(platform: Platform, source: BaseSource, found: AppendPlan, topic: str, say: Say) -> TopicSlice:
    """What bronze is to read of a topic that contradicts it, as the source declares to treat that.

    Raises:
        TopicGapError: it is declared to fail.
        CdcAssetsError: the table could not be read again.
    """
    if source.topics.on_gap == "fail" or source.asked is None:
        raise TopicGapError(found.gaps[topic])
    table = next(table for table in source.tables if names.lake_topic(source, table) == topic)
    there = whole_tables(platform, source, [table])
    if there:
        say(f"{topic} begins with the whole table")
    return reload_tables(platform, source.asked, [table], found, say, KnownTopics(there=there))[topic]
