"""Waits until what the source had committed has reached the lake: bronze, silver, and where declared history and backup."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from cdc_assets import names
from cdc_assets.connectors.capture import tables_in_list
from cdc_assets.errors import CaughtUpTimeoutError, TableFailuresError
from cdc_assets.quantity import quantity
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.delta_log import bronze_committed, silver_committed, silver_positions
from cdc_assets.volumetry.log_position import LogPosition, TopicsStandError
from cdc_assets.volumetry.named_place import carry_named, carry_or_tell
from cdc_assets.volumetry.uncaptured_tables import Unheard, rows_without_records, still_unheard
from spark.delta.commits import Committed, CommittedTopic

if TYPE_CHECKING:
    from cdc_assets.resources.kafka import TopicState as KafkaTopic
    from cdc_assets.resources.platform import Platform

_FIRST_POLL_SECONDS, _LONGEST_POLL_SECONDS = 0.5, 2.0
# A refused table is behind from the first look on; a sound one is for the seconds of a run, and is not asked for again at once.
_REFUSALS_SECONDS = 10.0
_SOURCES_AT_A_TIME = 8


@dataclass(frozen=True)
class Behind:
    """A table that has not reached the position yet, and the layer that is behind."""

    source: str
    table: str
    layer: str


Refusals: TypeAlias = Callable[["Platform", BaseSource, Sequence[Table]], Mapping[TableId, str]]
"""Of tables of a source those that no later run can fold, and why."""


@dataclass(frozen=True)
class Awaited:
    """What is waited for besides silver and histories: the `backup`. `named`: a position without a name is an error; else it is
    told, and what the topics hold is waited for (named_place). `listed`: of tables that have rows and no record, those alone that
    the running connector lists; `events_flow` tells the others. `refusals`: asked for tables that silver is behind with; nobody
    waits for one that stands."""

    backup: bool = False
    named: bool = False
    listed: bool = False
    refusals: Refusals = lambda *_: {}


SILVER = Awaited()


def wait_caught_up(
    platform: Platform,
    sources: tuple[BaseSource, ...],
    *,
    timeout: float,
    awaited: Awaited = SILVER,
    progress: Callable[[tuple[Behind, ...]], None] = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, LogPosition]:
    """Block until everything that the sources had committed before the call is in silver, in histories (and in the backup).

    `progress` is told after each look which tables are behind, `say` what stands in the way, and that more than once. A table
    that stands is told at once, and the others are waited for. Sources are asked side by side.

    Raises:
        NoPlaceError: a position was to be named, and has no name.
        CaughtUpTimeoutError: naming the tables that are behind, and in which layer.
        TableFailuresError: all others have it; naming the tables that stand.
    """
    until, pause = time.monotonic() + timeout, _FIRST_POLL_SECONDS
    unheard = {source.name: _silent_tables(platform, source, listed=awaited.listed) for source in sources}
    standing = _Standing(platform, awaited.refusals, say)
    positions = standing.carry(sources, awaited, until)
    carried = [source for source in sources if source.name in positions]
    waiting: set[tuple[str, str]] | None = None
    while True:
        behind = [late for source in carried for late in _behind_source(platform, source, unheard, say)]
        for source in carried:
            behind += behind_position(platform, source, positions[source.name], with_backup=awaited.backup, only=waiting)
        behind = standing.without(carried, behind)
        # A position that was reached stays reached.
        waiting = {(late.source, late.table) for late in behind}
        progress(tuple(behind))
        if not behind:
            standing.end()
            return positions
        if time.monotonic() > until:
            told = ", ".join(f"{late.layer}/{late.source}/{late.table}" for late in behind)
            raise CaughtUpTimeoutError(f"not caught up within {timeout:.0f} s: {told}; ./cdc status shows where it stands")
        time.sleep(pause)
        pause = min(_LONGEST_POLL_SECONDS, 1.1 * pause)


class _Standing:
    """Tables that nothing carries any more: by (source, table) why. Each is told once, when it is found."""

    def __init__(self, platform: Platform, refusals: Refusals, say: Callable[[str], None]) -> None:
        self._platform, self._refusals, self._say = platform, refusals, say
        self._reasons: dict[tuple[str, str], str] = {}
        self._next = 0.0

    def carry(self, sources: Sequence[BaseSource], awaited: Awaited, until: float) -> dict[str, LogPosition]:
        """Of each source the position to wait for. What does not come into the lake stands: a topic's table, or a whole source.

        Raises:
            CaughtUpTimeoutError: of no source anything comes; the first one's.
        """
        carry = carry_named if awaited.named else carry_or_tell

        def one(source: BaseSource) -> LogPosition | CaughtUpTimeoutError:
            try:
                return carry(self._platform, source, deadline=max(1.0, until - time.monotonic()), say=self._say)
            except TopicsStandError as error:
                self._note(source, [t for t in source.tables if names.topic(source, t) in error.topics], str(error))
                return error.position
            except CaughtUpTimeoutError as error:
                return error

        with ThreadPoolExecutor(max(1, min(_SOURCES_AT_A_TIME, len(sources))), thread_name_prefix="wait") as pool:
            found = dict(zip([source.name for source in sources], pool.map(one, sources), strict=True))
        errors = {name: each for name, each in found.items() if isinstance(each, CaughtUpTimeoutError)}
        if errors and len(errors) == len(found):
            raise next(iter(errors.values()))
        for source in sources:
            if source.name in errors:
                self._note(source, source.tables, str(errors[source.name]))
        return {name: each for name, each in found.items() if isinstance(each, LogPosition)}

    def without(self, sources: Sequence[BaseSource], behind: Sequence[Behind]) -> list[Behind]:
        """Those that may still come. A source is asked now and then for tables that silver is behind with."""
        folded = [late for late in behind if late.layer in ("silver", "history")]
        if folded and time.monotonic() > self._next:
            for source in sources:
                late = {each.table for each in folded if each.source == source.name}
                tables = [table for table in source.tables if names.table_name(table) in late]
                found = self._refusals(self._platform, source, tables) if tables else {}
                for table in tables:
                    if table.id in found:
                        self._note(source, [table], found[table.id])
            self._next = time.monotonic() + _REFUSALS_SECONDS
        return [late for late in behind if (late.source, late.table) not in self._reasons]

    def end(self) -> None:
        """All others are there.

        Raises:
            TableFailuresError: some stand.
        """
        if self._reasons:
            raise TableFailuresError("silver", {f"{s}/{t}": reason for (s, t), reason in self._reasons.items()})

    def _note(self, source: BaseSource, tables: Sequence[Table], reason: str) -> None:
        new = [names.table_name(table) for table in tables if (source.name, names.table_name(table)) not in self._reasons]
        self._reasons |= {(source.name, short): reason for short in new}
        if new:
            what = new[0] if len(new) == 1 else quantity(len(new), "table")
            self._say(f"{source.name}/{what}: nobody waits for it any more: {reason}")


def _silent_tables(platform: Platform, source: BaseSource, *, listed: bool) -> tuple[Unheard, ...]:
    database = platform.database_if_any(source)
    if database is None:
        # A source of topics may have no core cluster at all.
        return ()
    silent = rows_without_records(source, database, _topics(platform, source, source.tables))
    running = platform.core_connect(source.cluster).config(names.connector_name(source)) if listed and silent else None
    if running is None:
        return silent
    there = tables_in_list(source, running)
    return tuple(each for each in silent if each.table.name in there)


def _topics(platform: Platform, source: BaseSource, tables: Iterable[Table]) -> dict[str, KafkaTopic]:
    return platform.core_kafka(source.cluster).states([names.topic(source, table) for table in tables])


def _behind_source(
    platform: Platform, source: BaseSource, unheard: dict[str, tuple[Unheard, ...]], say: Callable[[str], None]
) -> list[Behind]:
    """Tables with rows of which no record has come; one that has been heard of counts no more."""
    if not unheard[source.name]:
        return []
    unheard[source.name] = still_unheard(
        source, unheard[source.name], _topics(platform, source, [each.table for each in unheard[source.name]])
    )
    for each in unheard[source.name]:
        say(f"{source.name}: {each.table.name} has {each.message(source)}")
    return [Behind(source.name, names.table_name(each.table), "topic") for each in unheard[source.name]]


def behind_position(
    platform: Platform,
    source: BaseSource,
    position: LogPosition,
    *,
    with_backup: bool,
    only: Collection[tuple[str, str]] | None = None,
) -> list[Behind]:
    """The tables of the source that have not reached the position; `only`: of these (source, table)."""
    committed = bronze_committed(names.bronze_path(platform.lake, source))
    late = []
    for table in source.tables:
        if only is not None and (source.name, names.table_name(table)) not in only:
            continue
        layer = _layer_behind(platform, source, table, position, committed, with_backup=with_backup)
        if layer:
            late.append(Behind(source.name, names.table_name(table), layer))
    return late


def _layer_behind(
    platform: Platform,
    source: BaseSource,
    table: Table,
    position: LogPosition,
    committed: Committed | None,
    *,
    with_backup: bool,
) -> str | None:
    topic = names.lake_topic(source, table)
    target = position.offsets.get(topic, {})
    bronze = committed.topics.get(topic) if committed else None
    positions = bronze.positions if bronze else {}
    if any(positions.get(partition, 0) < end for partition, end in target.items()):
        return "bronze"
    if not _has_folded(names.silver_path(platform.lake, source, table), topic, target, bronze):
        return "silver"
    if table.history == "scd2" and not _has_folded(names.history_path(platform.lake, source, table), topic, target, bronze):
        return "history"
    if with_backup and source.backup is not None:
        from cdc_assets.backup import backup_position

        copied = backup_position(platform.store(source.backup.store), source=source.name, table=names.table_name(table))
        if bronze is not None and bronze.records_ahead_of(copied) > 0:
            return "backup"
    return None


def _has_folded(path: str, topic: str, target: Mapping[int, int], bronze: CommittedTopic | None) -> bool:
    """Whether the table has folded the topic up to the target, or all records that bronze holds of it."""
    folded = silver_committed(path)
    state, up_to = (folded.topics.get(topic) if folded else None), silver_positions(folded, topic)
    if bronze is None or not bronze.records_ahead_of(None):
        return True
    comparable = state is None or state.epoch == bronze.epoch
    if comparable and all(up_to.get(partition, 0) >= end for partition, end in target.items()):
        return True
    return bronze.records_ahead_of(state) <= 0
