"""One sensor per source: last stable offsets of all its mirrored topics against what the lake has, and the runs to request.

One AdminClient call and a few reads of Delta logs per tick, no JVM. Runs are requested without a run key: Dagster
would drop a repeated key even if its run failed (dagster-io/dagster#7130); runs under way are looked up instead.
After failed runs the sensor waits longer each time, so that a lasting fault does not start a run per tick.

What to request (`decide`) is pure logic over what is in the topics, in bronze, and in runs under way. Nothing is remembered for
correctness: ranges are worked out again in the run, from the Delta log. A lost cursor, a failed run or a day without the sensor
therefore loses nothing and repeats nothing.

A table at rest is observed, with the data version of its rows: nothing behind it is built again, and its checks keep their last
verdict (ADR 125). Only where its rows have changed beside Dagster (a replay or a healing by the command line) it is materialized.
The check `fresh` is reported beside that; a table that is late does not pass it.
"""

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord
from typing_extensions import Self

from cdc_assets.chain.lag import records_behind
from cdc_assets.chain.offset_ranges import pending_ranges, width
from cdc_assets.clients.delta_log import bronze_committed, silver_rows
from cdc_assets.clients.platform import Platform
from cdc_assets.defs.asset_specs import Event, asset_key, change_event, silver_version, version_in
from cdc_assets.defs.check_results import evaluation_of
from cdc_assets.defs.check_specs import FRESH
from cdc_assets.defs.continuous_run import end_long_runs, keeper_name
from cdc_assets.defs.instance_runs import (
    BACKED_UP,
    CARRIED,
    NO_PAUSES,
    SensorRuns,
    busy_tables,
    failure_pauses,
    last_materializations,
    runs_under_way,
)
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.defs.schema_and_fresh_checks import fresh_result, last_updates
from cdc_assets.registry import names
from cdc_assets.registry.errors import CdcAssetsError
from cdc_assets.registry.names import DIGEST_TAG, SOURCE_TAG
from cdc_assets.registry.registry_copy import change_of
from cdc_assets.registry.source_declaration import BaseSource, digest
from cdc_assets.registry.source_settings import Batching
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity
from spark.table.commit_metadata import CommittedTopic


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

    def look(self, behind: Collection[str], now: float) -> Self:
        """With what this look has found."""
        kept = self.since if now - self.looked_at <= _GAP_SECONDS else {}
        return replace(self, since={table: kept.get(table, now) for table in behind}, looked_at=now)


@dataclass(frozen=True)
class SilverTable:
    """What Dagster knows of a silver table: its last materialization, and the last verdict of `fresh`."""

    source: BaseSource
    table: Table
    last: dg.EventLogEntry | None
    last_check: AssetCheckExecutionRecord | None

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
        evaluation = self.last_check.evaluation if self.last_check is not None else None
        return (evaluation.passed, evaluation.severity) if evaluation is not None else None

    @property
    def passed_at(self) -> float:
        """When it was told last that it is fresh; 0: not since it was late, or never."""
        return self.last_check.create_timestamp if self.last_check is not None and (self.verdict or (False,))[0] else 0.0


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
        log = asset_key("bronze", found.source, found.table)
        yield change_event(found.key, metadata, version, before, description=text, log=log)
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


_TICK_SECONDS = 5


def sensor_name(source: BaseSource) -> str:
    """The name of the source's offsets sensor."""
    return f"offsets_{source.name}"


def build_offsets_sensor(source: BaseSource, declared_in: Path | None = None) -> dg.SensorDefinition:
    """Requests bronze, silver and backup of the tables that have news; tells when `declared_in` says something else by now."""
    loaded = digest(source)
    layers = ("bronze", "silver", "backup") if source.backup else ("bronze", "silver")
    targets = dg.AssetSelection.assets(*(asset_key(layer, source, table) for layer in layers for table in source.tables))

    @dg.sensor(
        name=sensor_name(source),
        target=targets,
        minimum_interval_seconds=_TICK_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        tags={SOURCE_TAG: source.name, DIGEST_TAG: loaded},
        description=f"Last stable offsets of {quantity(len(source.tables), 'mirrored topic')} against what the lake has.",
    )
    def offsets(context: dg.SensorEvaluationContext, platform: PlatformResource) -> dg.SensorResult:
        return _look(context, platform, source, lambda: change_of(source.name, loaded, declared_in) if declared_in else "")

    return offsets


@dataclass(frozen=True)
class _Cursor:
    """What a look leaves for the next: since when tables wait for a run, and since when they are late."""

    waiting: Waiting
    late: Lateness

    @classmethod
    def read(cls, text: str | None) -> Self:
        """A convenience: one that cannot be read starts anew."""
        try:
            document = json.loads(text or "{}")
            waiting = {str(k): float(v) for k, v in document.get("waiting_since", {}).items()}
            late = {str(k): float(v) for k, v in document.get("late_since", {}).items()}
            return cls(Waiting(waiting), Lateness(late, float(document.get("looked_at", 0.0))))
        except (ValueError, TypeError, AttributeError):
            return cls(Waiting(), Lateness({}, 0.0))

    def to_json(self) -> str:
        """As Dagster keeps it."""
        late = {"late_since": dict(self.late.since), "looked_at": self.late.looked_at}
        return json.dumps({"waiting_since": dict(self.waiting.since), **late})


def _look(
    context: dg.SensorEvaluationContext, platform: Platform, source: BaseSource, change: Callable[[], str]
) -> dg.SensorResult:
    """One tick; `change`: what the registry says otherwise by now, empty for nothing."""
    now, cursor = time.time(), _Cursor.read(context.cursor)
    try:
        news, problems = read_news(context.instance, platform, source)
    except CdcAssetsError as error:
        return _without_news(context, platform, source, cursor, str(error))
    for problem in problems:
        context.log.warning(problem)
    under_way = runs_under_way(context.instance)
    busy = busy_tables(under_way, source)
    # A failure holds up nothing where there is nothing to request: the runs of the past are not read at rest.
    is_wanted = any(table_news.wants_a_run for table_news in news)
    pauses = failure_pauses(context.instance, source, now=now) if is_wanted else NO_PAUSES
    paused = {kind: {table: pause for table, pause in of_kind.items() if pause > 0} for kind, of_kind in pauses.items()}
    changed = change()
    if source.mode == "sensor":
        end_long_runs(context.instance, under_way, source, "the source is declared with mode: sensor")
    ours = news if source.mode == "sensor" else []
    elsewhere = "" if source.mode == "sensor" else f"bronze and silver are carried by the run of {keeper_name(source)}"
    requests, waiting = decide(
        ours,
        busy=busy[CARRIED] | paused[CARRIED].keys(),
        waiting=cursor.waiting,
        now=now,
        batching=source.batching,
        alone=frozenset(pauses[CARRIED]),
    )
    backups = decide_backups(news, busy=busy[BACKED_UP] | paused[BACKED_UP].keys(), alone=frozenset(pauses[BACKED_UP]))
    run_requests = [_run_request(source, CARRIED, request, "bronze", "silver") for request in requests]
    run_requests += [_run_request(source, BACKED_UP, request, "backup") for request in backups]
    late = cursor.late.look([table_news.table for table_news in news if table_news.has_news], now)
    nothing = (elsewhere, _why_nothing(ours, len(news), busy, paused, problems), changed)
    return dg.SensorResult(
        run_requests=run_requests,
        asset_events=rest_events(context.instance, platform, source, tables_at_rest(news, busy[CARRIED]), late),
        skip_reason=None if run_requests else "; ".join(filter(None, nothing)),
        cursor=_Cursor(waiting, late).to_json(),
    )


def _run_request(source: BaseSource, kind: SensorRuns, request: Request, *layers: str) -> dg.RunRequest:
    tables = list(map(source.table, request.tables))
    return dg.RunRequest(
        asset_selection=[asset_key(layer, source, table) for layer in layers for table in tables],
        asset_check_keys=[],
        tags={SOURCE_TAG: source.name, kind.tag: ",".join(request.tables), "cdc/reason": request.reason},
    )


def _without_news(
    context: dg.SensorEvaluationContext, platform: Platform, source: BaseSource, cursor: _Cursor, why: str
) -> dg.SensorResult:
    """Nobody knows what is new: each table grows older, which is told."""
    late = cursor.late.look([names.table_name(table) for table in source.tables], time.time())
    events = rest_events(context.instance, platform, source, (), late)
    return dg.SensorResult(asset_events=events, skip_reason=why, cursor=_Cursor(cursor.waiting, late).to_json())


def _why_nothing(
    news: list[TableNews],
    topics: int,
    busy: Mapping[SensorRuns, frozenset[str]],
    paused: Mapping[SensorRuns, Mapping[str, float]],
    problems: list[str],
) -> str:
    if problems:
        return "; ".join(problems)
    if pauses := {table: pause for of_kind in paused.values() for table, pause in of_kind.items()}:
        return ", ".join(f"{table} failed, again in {pause:.0f} s" for table, pause in sorted(pauses.items()))
    waiting = sorted(n.table for n in news if n.waiting)
    if not waiting:
        return f"nothing new in {quantity(topics, 'topic')}"
    return f"{', '.join(sorted(busy[CARRIED])) or 'no table'} in a run, waiting: {', '.join(waiting)}"


def read_news(instance: dg.DagsterInstance, platform: Platform, source: BaseSource) -> tuple[list[TableNews], list[str]]:
    """What every table has waiting, and what stands in the way of telling.

    A table whose topic contradicts bronze is reported as news, so that a run is asked for and fails by name.
    """
    states = platform.lake_kafka().states([names.lake_topic(source, table) for table in source.tables])
    committed = bronze_committed(names.bronze_path(platform.lake, source))
    topics = committed.topics if committed else {}
    backups = [_backup_key(source, table) for table in source.tables] if source.backup else []
    copied = last_materializations(instance, backups)
    news, problems = [], []
    for table in source.tables:
        topic = names.lake_topic(source, table)
        state, committed_topic = states.get(topic), topics.get(topic)
        if state is None:
            problems.append(f"topic {topic} does not exist yet on the lake's cluster")
            continue
        positions = dict(committed_topic.positions) if committed_topic else {}
        try:
            waiting = width(
                pending_ranges(
                    state,
                    positions=positions or None,
                    topic_id=committed_topic.topic_id if committed_topic else None,
                    from_zero=committed_topic is None and source.captured is not None,
                )
            )
        except CdcAssetsError as error:
            problems.append(str(error))
            waiting = 1
        last = copied.get(_backup_key(source, table))
        news.append(
            TableNews(
                names.table_name(table),
                waiting,
                silver_behind=committed_topic is not None and records_behind(platform.lake, source, table, committed_topic) > 0,
                backup_behind=committed_topic is not None and _is_due(source, last) and _is_behind(last, committed_topic),
            )
        )
    return news, problems


def _backup_key(source: BaseSource, table: Table) -> dg.AssetKey:
    return asset_key("backup", source, table)


def _is_due(source: BaseSource, last: dg.EventLogEntry | None) -> bool:
    if source.backup is None:
        return False
    return last is None or time.time() - last.timestamp >= source.backup.every.total_seconds()


def _is_behind(last: dg.EventLogEntry | None, bronze: CommittedTopic) -> bool:
    from cdc_assets.backup.backup_position import BackupPosition

    metadata = last.asset_materialization.metadata if last and last.asset_materialization else {}
    # One that a person reports by hand says neither.
    at, copied = (int(str(metadata[key].value)) if key in metadata else 0 for key in ("cdc/epoch", "cdc/epoch_records"))
    return bronze.records_ahead_of(BackupPosition(epoch=at, records=copied)) > 0
