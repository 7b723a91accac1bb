"""What a tick of the offsets sensor requests, and what it confirms without a run.

Requests are pure logic over what is in the topics, in bronze, and in runs under way. Nothing is remembered for correctness:
ranges
are worked out again in the run, from the Delta log. A lost cursor, a restart, a failed run or a day without the sensor therefore
loses nothing and repeats nothing.

A table at rest is observed, with the data version of its rows: nothing behind it is built again, and its checks keep their last
verdict (ADR 125). Only where its rows have changed beside Dagster (a replay or a healing by the command line) it is materialized.
The check `fresh` is reported beside that; a table that is late does not pass it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord

from cdc_assets.clients.delta_log import silver_rows
from cdc_assets.clients.platform import Platform
from cdc_assets.defs.asset_specs import Event, asset_key, change_event, silver_version, version_in
from cdc_assets.defs.check_results import evaluation_of
from cdc_assets.defs.check_specs import FRESH
from cdc_assets.defs.instance_runs import last_materializations
from cdc_assets.defs.schema_and_fresh_checks import fresh_result, last_updates
from cdc_assets.registry import names
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.source_settings import Batching
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity


@dataclass(frozen=True)
class TableNews:
    """One table at a tick. `waiting` counts offsets beyond bronze (an upper bound of records).

    `backup_behind`: the last backup is old enough for another, and bronze has records that it lacks.
    """

    table: str
    waiting: int
    silver_behind: bool = False
    backup_behind: bool = False

    @property
    def has_news(self) -> bool:
        """Of its topic or of bronze: what a run of bronze and silver would carry."""
        return self.waiting > 0 or self.silver_behind

    @property
    def wants_a_run(self) -> bool:
        """A run of bronze and silver, or one of its backup."""
        return self.has_news or self.backup_behind


@dataclass(frozen=True)
class Waiting:
    """Since when (epoch seconds) each table has had news: the sensor's cursor."""

    since: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """One run: its tables, and why."""

    tables: tuple[str, ...]
    reason: str


def decide(
    news: Sequence[TableNews],
    *,
    busy: frozenset[str],
    waiting: Waiting,
    now: float,
    batching: Batching,
    alone: frozenset[str] = frozenset(),
) -> tuple[tuple[Request, ...], Waiting]:
    """The runs of bronze and silver to request now, and the cursor to keep.

    A table in a run under way is left alone. A table with more than the batching's `max_records` waiting gets a run of its
    own, so that it does not hold the others up, and so does one of `alone`, whose last run failed: its step would end the
    others' run. All other tables with news share one run.
    """
    since = {n.table: waiting.since.get(n.table, now) for n in news if n.has_news}
    free = [n for n in news if n.table not in busy and n.has_news]
    failed = [n for n in free if n.table in alone]
    most, longest = batching.max_records, batching.max_delay.total_seconds()
    backlog = [n for n in free if n.waiting > most and n not in failed]
    small = [n for n in free if n.waiting <= most and n not in failed]
    due = any(n.waiting >= batching.min_records or n.silver_behind or now - since[n.table] >= longest for n in small)
    requests = [Request((n.table,), f"backlog of up to {quantity(n.waiting, 'record')}") for n in backlog]
    requests += [Request((n.table,), "once more after a failure") for n in failed]
    if due:
        total = sum(n.waiting for n in small)
        requests.append(Request(tuple(n.table for n in small), f"up to {quantity(total, 'new record')}"))
    tables_requested = {table for request in requests for table in request.tables}
    return tuple(requests), Waiting({table: at for table, at in since.items() if table not in tables_requested})


def decide_backups(
    news: Sequence[TableNews], *, busy: frozenset[str], alone: frozenset[str] = frozenset()
) -> tuple[Request, ...]:
    """The runs of backups to request now: one for all tables, and one for each of `alone`, whose last one failed.

    A backup has a run of its own: what is on its way to silver does not wait for it.
    """
    behind = [n.table for n in news if n.backup_behind and n.table not in busy]
    requests = [Request((table,), "once more after a failure") for table in behind if table in alone]
    if together := tuple(table for table in behind if table not in alone):
        requests.append(Request(together, "bronze has records that the backup lacks"))
    return tuple(requests)


_SETTLED_SECONDS = 60.0
"""After a fold a table that goes on being folded is not told of each time."""
_GAP_SECONDS = 300.0
"""Between two looks of a sensor that was away meanwhile, as when the stack stood still."""


@dataclass(frozen=True)
class Lateness:
    """Since when (epoch seconds) each table has not held all there is, as the sensor's looks have seen it without a gap."""

    since: Mapping[str, float]
    looked_at: float

    def look(self, behind: Collection[str], now: float) -> Lateness:
        """With what this look has found."""
        kept = self.since if now - self.looked_at <= _GAP_SECONDS else {}
        return Lateness({table: kept.get(table, now) for table in behind}, now)


@dataclass(frozen=True)
class SilverTable:
    """What Dagster knows of a silver table: its last materialization, and the last verdict of `fresh`."""

    source: BaseSource
    table: Table
    last: dg.EventLogEntry | None
    told: AssetCheckExecutionRecord | None

    @property
    def key(self) -> dg.AssetKey:
        """Of the silver asset."""
        return asset_key("silver", self.source, self.table)

    @property
    def made_at(self) -> float:
        """When it was materialized last; 0: never."""
        return self.last.timestamp if self.last is not None else 0.0

    @property
    def verdict(self) -> tuple[bool, dg.AssetCheckSeverity] | None:
        """Whether it passed and how bad it is; None: nothing was told."""
        evaluation = self.told.evaluation if self.told is not None else None
        return (evaluation.passed, evaluation.severity) if evaluation is not None else None

    @property
    def passed_at(self) -> float:
        """When it was told last that it is fresh; 0: not since it was late, or never."""
        return self.told.create_timestamp if self.told is not None and (self.verdict or (False,))[0] else 0.0


def tables_at_rest(news: Iterable[TableNews], busy: Collection[str]) -> frozenset[str]:
    """Those that hold all there is, and are in no run."""
    return frozenset(n.table for n in news if not n.has_news) - set(busy)


def rest_events(
    instance: dg.DagsterInstance, platform: Platform, source: BaseSource, resting: Collection[str], late: Lateness
) -> list[Event]:
    """What is to be told of the source's silver tables at the look `late`."""
    tables = [t for t in source.tables if names.table_name(t) in {*resting, *late.since}]
    keys = {FRESH.key(source, table): table for table in tables}
    last = last_materializations(instance, [key.asset_key for key in keys])
    check_records = instance.event_log_storage.get_latest_asset_check_execution_by_key([*keys]) if keys else {}
    events: list[Event] = []
    for key, table in keys.items():
        silver = SilverTable(source, table, last.get(key.asset_key), check_records.get(key))
        name = names.table_name(table)
        if name in resting:
            events += _confirmation(platform, silver, late.looked_at)
        else:
            events += _lateness(instance, silver, late.since[name], late.looked_at)
    return events


def _confirmation(platform: Platform, found: SilverTable, now: float) -> Iterator[Event]:
    """That the table holds all there is: twice in its window, and once its fold is a minute old."""
    window = (found.table.freshness or found.source.freshness).fail_after.total_seconds()
    due = now - max(found.made_at, found.passed_at) > window / 2
    unsaid = found.passed_at < found.made_at and now - found.made_at > _SETTLED_SECONDS
    if not due and not unsaid and (found.verdict is None or found.verdict[0]):
        return
    rows = silver_rows(names.silver_path(platform.lake, found.source, found.table))
    if rows is None:
        return
    if due:
        before = version_in(found.last)
        version = silver_version(platform.lake, found.source, found.table, before)
        last = found.last.asset_materialization if found.last is not None and version != before else None
        # What was told of the table before is told again, so that its page stays whole.
        metadata = {**(last.metadata if last is not None else {}), "dagster/row_count": rows}
        text = "nothing new since the last run; silver holds all there is"
        yield change_event(found.key, metadata, version, before, description=text)
    yield evaluation_of(fresh_result(found.source, found.table, now, now))


def _lateness(instance: dg.DagsterInstance, found: SilverTable, since: float, now: float) -> Iterator[dg.AssetCheckEvaluation]:
    """That the table is late, or is not any more, where Dagster has been told otherwise."""
    result = fresh_result(found.source, found.table, max(since, found.made_at), now)
    if not result.passed:
        # Folds that changed no row are observations, which only a query for each table tells.
        at = last_updates(instance, [found.key]).get(found.key, 0.0)
        result = fresh_result(found.source, found.table, max(since, at), now)
    if (result.passed, result.severity) != (found.verdict or (True, result.severity)):
        yield evaluation_of(result)
