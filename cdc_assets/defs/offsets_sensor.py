"""One sensor per source: last stable offsets of all its mirrored topics against what the lake has.

One AdminClient call and a few reads of Delta logs per tick, no JVM. Runs are requested without a run key: Dagster
would drop a repeated key even if its run failed (dagster-io/dagster#7130); runs under way are looked up instead.
After failed runs the sensor waits longer each time, so that a lasting fault does not start a run per tick.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
from typing_extensions import Self

from cdc_assets.chain.lag import records_behind
from cdc_assets.chain.offset_ranges import pending_ranges, width
from cdc_assets.clients.delta_log import bronze_committed
from cdc_assets.clients.platform import Platform
from cdc_assets.defs.asset_specs import asset_key
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
from cdc_assets.defs.requested_work import (
    Lateness,
    Request,
    TableNews,
    Waiting,
    decide,
    decide_backups,
    rest_events,
    tables_at_rest,
)
from cdc_assets.registry import names
from cdc_assets.registry.errors import CdcAssetsError
from cdc_assets.registry.names import DIGEST_TAG, SOURCE_TAG
from cdc_assets.registry.registry_copy import change_of
from cdc_assets.registry.source_declaration import BaseSource, digest
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity
from spark.table.commit_metadata import CommittedTopic

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
        state, known = states.get(topic), topics.get(topic)
        if state is None:
            problems.append(f"topic {topic} does not exist yet on the lake's cluster")
            continue
        positions = dict(known.positions) if known else {}
        try:
            waiting = width(
                pending_ranges(
                    state,
                    positions=positions or None,
                    topic_id=known.topic_id if known else None,
                    from_zero=known is None and source.captured is not None,
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
                silver_behind=known is not None and records_behind(platform.lake, source, table, known) > 0,
                backup_behind=known is not None and _is_due(source, last) and _is_behind(last, known),
            )
        )
    return news, problems


def _backup_key(source: BaseSource, table: Table) -> dg.AssetKey:
    return asset_key("backup", source, table)


def _is_due(source: BaseSource, last: dg.EventLogEntry | None) -> bool:
    """Whether the source has a backup, and the table's last one is as old as is declared."""
    if source.backup is None:
        return False
    return last is None or time.time() - last.timestamp >= source.backup.every.total_seconds()


def _is_behind(last: dg.EventLogEntry | None, bronze: CommittedTopic) -> bool:
    from cdc_assets.backup.backup_position import BackupPosition

    metadata = last.asset_materialization.metadata if last and last.asset_materialization else {}
    at, copied = (int(str(metadata[key].value)) if metadata else 0 for key in ("cdc/epoch", "cdc/epoch_records"))
    return bronze.records_ahead_of(BackupPosition(epoch=at, records=copied)) > 0
