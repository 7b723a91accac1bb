"""Waits until what the source had committed has reached the lake: bronze, silver, and where declared history and backup."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdc_assets import names
from cdc_assets.connectors.capture import tables_in_list
from cdc_assets.errors import CaughtUpTimeoutError
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.delta_log import bronze_committed, silver_committed, silver_positions
from cdc_assets.volumetry.log_position import LogPosition
from cdc_assets.volumetry.named_place import carry_named, carry_or_tell
from cdc_assets.volumetry.uncaptured_tables import Unheard, rows_without_records, still_unheard
from spark.delta.commits import Committed, CommittedTopic

if TYPE_CHECKING:
    from cdc_assets.resources.kafka import TopicState as KafkaTopic
    from cdc_assets.resources.platform import Platform

_FIRST_POLL_SECONDS, _LONGEST_POLL_SECONDS = 0.5, 2.0


@dataclass(frozen=True)
class Behind:
    """A table that has not reached the position yet, and the layer that is behind."""

    source: str
    table: str
    layer: str


@dataclass(frozen=True)
class Awaited:
    """What is waited for besides silver and histories: the `backup`. `named`: a position without a name is an error; else it is
    told, and what the topics hold is waited for (named_place). `listed`: of tables that have rows and no record, those alone that
    the running connector lists; `events_flow` tells the others."""

    backup: bool = False
    named: bool = False
    listed: bool = False


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

    `progress` is told after each look which tables are behind, `say` what stands in the way, and that more than once.

    Raises:
        NoPlaceError: a position was to be named, and has no name.
        CaughtUpTimeoutError: naming the tables that are behind, and in which layer.
    """
    until, pause = time.monotonic() + timeout, _FIRST_POLL_SECONDS
    unheard = {source.name: _silent_tables(platform, source, listed=awaited.listed) for source in sources}
    carry = carry_named if awaited.named else carry_or_tell
    positions = {source.name: carry(platform, source, deadline=max(1.0, until - time.monotonic()), say=say) for source in sources}
    waiting: set[tuple[str, str]] | None = None
    while True:
        behind = tuple(
            late
            for source in sources
            for late in (
                *_behind_source(platform, source, unheard, say),
                *behind_position(platform, source, positions[source.name], with_backup=awaited.backup, only=waiting),
            )
        )
        # A position that was reached stays reached.
        waiting = {(late.source, late.table) for late in behind}
        progress(behind)
        if not behind:
            return positions
        if time.monotonic() > until:
            told = ", ".join(f"{late.layer}/{late.source}/{late.table}" for late in behind)
            raise CaughtUpTimeoutError(f"not caught up within {timeout:.0f} s: {told}; ./cdc status shows where it stands")
        time.sleep(pause)
        pause = min(_LONGEST_POLL_SECONDS, 1.1 * pause)


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
