"""The jobs of a source on declared rhythms, a row each, with the schedule that asks for it: RHYTHMS.

A job is one run for all tables of the source that are due. A tick is not worth a run where the next one is near and a backlog
goes first. A source is not counted again while nothing has happened since all of it was counted, and was right (ADR 0052): two
idle sources filled the list of runs with 24 counts an hour that found what the one before had found.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any
from zlib import crc32

import dagster as dg
import psutil
from dagster import DagsterRunStatus, RunsFilter
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord, AssetCheckExecutionRecordStatus

from cdc_assets.chain.windowed_results import is_behind, windows_of
from cdc_assets.defs.asset_specs import asset_key
from cdc_assets.defs.check_specs import (
    CONNECTOR_RUNNING,
    CUTS_KEPT,
    DRILLED,
    EVENTS_FLOW,
    HISTORY_RECONCILED,
    MANIFEST_PARITY,
    NOTHING_LOST,
    PREFLIGHT,
    QUARANTINE_EMPTY,
    RECONCILED,
    RECONCILED_IN_STEPS,
    RECORD_PARITY,
    SCHEMA,
    TABLE_MODEL,
    WINDOWS_EQUAL_SOURCE,
    CheckSpec,
)
from cdc_assets.defs.instance_runs import last_materializations, run_under_way
from cdc_assets.proof.event_ledger import behind, places
from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import SettingError
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity

# After a pause the ticks of all that time would run at once, beside the backlog.
_LATE = timedelta(minutes=1)
# A count takes 25 s of CPU on a Spark that has just started: a quarter of a start from kept data (ADR 0012).
_STARTING = timedelta(minutes=2)
_SOON_MINUTES = 30


def why_dropped(due: datetime, *, minutes: int, now: datetime | None = None, started: datetime | None = None) -> str | None:
    """Why the tick that was due at `due` is not run; None when it is.

    Args:
        due: aware.
        minutes: lie between two ticks.
        now: the present, by default.
        started: when this code location began, by default.
    """
    now = now or datetime.now(timezone.utc)
    started = started or datetime.fromtimestamp(psutil.Process().create_time(), timezone.utc)
    if minutes > _SOON_MINUTES:
        return None
    next_one = f"the next comes within {minutes} min"
    if now - due > _LATE:
        return f"was due {(now - due).total_seconds():.0f} s ago, while the daemon did not run; {next_one}"
    if now - started < _STARTING:
        return (
            f"Dagster loaded its definitions {(now - started).total_seconds():.0f} s ago, and the backlog goes first; {next_one}"
        )
    return None


def whole_minutes(every: timedelta) -> int:
    """`every` in minutes, rounded, at least one."""
    return max(1, round(every.total_seconds() / 60))


def cron(every: timedelta, minute: int = 0) -> str:
    """At least as often: every so many minutes of an hour, hours of a day, or days of a month.

    `minute`: of the day, at which a rhythm of days begins.
    """
    minutes = whole_minutes(every)
    hours, days = minutes // 60, minutes // 1440
    if not hours:
        return f"*/{minutes} * * * *"
    return f"0 */{hours} * * *" if not days else f"{minute % 60} {minute // 60} */{min(days, 31)} * *"


@dataclass(frozen=True)
class Rhythm:
    """A job of a source, with the schedule that asks for it.

    `job` begins its name. `every` is None in a source that has no such job. `why_skip` says why a tick is not worth a run. `due`
    are the checks that a tick is for, where not all of the job's. `minute` is that of the day at which a rhythm of days begins.
    """

    job: str
    description: str
    every: Callable[[BaseSource], timedelta | None]
    selects: Callable[[BaseSource], dg.AssetSelection]
    why_skip: Callable[[BaseSource, dg.DagsterInstance], str | None] = lambda source, instance: None
    due: Callable[[BaseSource, dg.DagsterInstance], Sequence[dg.AssetCheckKey] | None] = lambda source, instance: None
    minute: Callable[[BaseSource], int] = lambda source: 0

    def build(self, source: BaseSource) -> Iterator[tuple[UnresolvedAssetJobDefinition, dg.ScheduleDefinition]]:
        """`<job>_<source>` and its schedule, which begins with the first table in silver; nothing in a source without it."""
        every = self.every(source)
        if every is not None:
            job = dg.define_asset_job(f"{self.job}_{source.name}", selection=self.selects(source), description=self.description)
            yield job, self._schedule(source, job, every)

    def _schedule(self, source: BaseSource, job: UnresolvedAssetJobDefinition, every: timedelta) -> dg.ScheduleDefinition:
        @dg.schedule(
            name=f"{job.name}_schedule",
            job=job,
            cron_schedule=cron(every, self.minute(source)),
            default_status=dg.DefaultScheduleStatus.RUNNING,
        )
        def tick(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
            silver = [asset_key("silver", source, table) for table in source.tables]
            if not last_materializations(context.instance, silver):
                return dg.SkipReason(f"nothing of {source.name} is in silver yet")
            if missed := why_dropped(context.scheduled_execution_time, minutes=whole_minutes(every)):
                return dg.SkipReason(missed)
            # On a machine that is too slow for the rhythm, a run per tick would wait for the one before it, and each takes memory
            # and processor meanwhile (ten runs of one job were seen, `dagster-code` at 2.1 GB).
            if run := run_under_way(context.instance, job.name):
                return dg.SkipReason(f"run {run} of {job.name} has not ended; the next tick after its end is run")
            if reason := self.why_skip(source, context.instance):
                return dg.SkipReason(reason)
            return dg.RunRequest(asset_check_keys=self.due(source, context.instance))

        return tick


def why_idle(
    source: BaseSource, instance: dg.DagsterInstance, keys: Sequence[dg.AssetCheckKey], every: timedelta, *, now: float
) -> str | None:
    """Why these checks would find what they found; None when they are to run.

    They run where one of them has not passed, or has looked at a part of its table only; where a run has carried something
    since, or tried to; and once in `volumetry.idle_every` at least, which is how old a green may be.
    """
    latest = instance.event_log_storage.get_latest_asset_check_execution_by_key([*keys])
    if len(latest) < len(keys) or not all(_says_it_all(record) for record in latest.values()):
        return None
    counted, idle = min(record.create_timestamp for record in latest.values()), source.volumetry.idle_every
    # Half a tick early, as for a table's own rhythm.
    if now - counted >= (idle - every / 2).total_seconds():
        return None
    # Some storages keep when a run was changed in whole seconds.
    since = datetime.fromtimestamp(counted - 1, timezone.utc)
    filters = dg.RunsFilter(tags={"cdc/source": source.name}, updated_after=since)
    if instance.get_run_records(filters, limit=1):
        return None
    bronze = [asset_key("bronze", source, table) for table in source.tables]
    if any(event.timestamp > counted for event in last_materializations(instance, bronze).values()):
        return None
    minutes = round((now - counted) / 60)
    return (
        f"nothing has come since all checks passed {minutes} min ago; counted again within {round(idle.total_seconds() / 60)} min"
    )


def _says_it_all(record: AssetCheckExecutionRecord) -> bool:
    evaluation = record.evaluation
    if evaluation is None or record.status not in (
        AssetCheckExecutionRecordStatus.SUCCEEDED,
        AssetCheckExecutionRecordStatus.FAILED,
    ):
        return False
    share = evaluation.metadata.get("cdc/share")
    whole = share is None or share.value == "1/1"
    return whole and (evaluation.passed or evaluation.severity == dg.AssetCheckSeverity.WARN)


# Not one that its run never came to.
_ENDED = (AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED)


_COUNTED: tuple[CheckSpec[Any], ...] = (
    CONNECTOR_RUNNING,
    PREFLIGHT,
    EVENTS_FLOW,
    NOTHING_LOST,
    RECORD_PARITY,
    RECONCILED,
    SCHEMA,
    QUARANTINE_EMPTY,
    TABLE_MODEL,
    HISTORY_RECONCILED,
    MANIFEST_PARITY,
    # Told also where no run of cuts or drills comes.
    CUTS_KEPT,
    DRILLED,
)


_OF_TABLES_OWN_RHYTHM = (RECORD_PARITY, RECONCILED, SCHEMA, HISTORY_RECONCILED, MANIFEST_PARITY)


def checks_of_counts(source: BaseSource) -> list[dg.AssetCheckKey]:
    """The checks that run with the counts."""
    return sorted((key for spec in _COUNTED for key in spec.keys(source)), key=str)


def _shortest(source: BaseSource) -> timedelta:
    return min(_every(source, table) for table in source.tables)


def _counts_due(source: BaseSource, instance: dg.DagsterInstance) -> Sequence[dg.AssetCheckKey] | None:
    return checks_due(source, instance, _shortest(source), now=time.time())


def _why_not_counted(source: BaseSource, instance: dg.DagsterInstance) -> str | None:
    keys = _counts_due(source, instance)
    return why_idle(source, instance, checks_of_counts(source) if keys is None else keys, _shortest(source), now=time.time())


def checks_due(
    source: BaseSource, instance: dg.DagsterInstance, shortest: timedelta, *, now: float
) -> Sequence[dg.AssetCheckKey] | None:
    """All checks but those of tables whose own rhythm is longer and which were counted within it; None: all.

    By when they were last counted, so that a tick that was left out is made up for by the next.
    """
    own = {RECORD_PARITY.key(source, t): t for t in source.tables if _every(source, t) > shortest}
    if not own:
        return None
    latest = instance.event_log_storage.get_latest_asset_check_execution_by_key([*own])
    resting = [
        table
        for key, table in own.items()
        # Half a tick early: the last run came a moment after its tick, and so would this one's be one tick late.
        if key in latest
        and latest[key].status in _ENDED
        and now - latest[key].create_timestamp < (_every(source, table) - shortest / 2).total_seconds()
    ]
    left = {spec.key(source, table) for table in resting for spec in _OF_TABLES_OWN_RHYTHM}
    return [key for key in checks_of_counts(source) if key not in left] if left else None


def _every(source: BaseSource, table: Table) -> timedelta:
    return (table.volumetry or source.volumetry).every


def _why_not_booked(source: BaseSource, _: dg.DagsterInstance) -> str | None:
    ledger_places = places(settings.lake(), source)
    if any(behind(settings.lake(), source, table, ledger_places.get(names.table_name(table))) for table in source.tables):
        return None
    return "silver has folded nothing since the last count"


def _assets_about(layer: str) -> Callable[[BaseSource], dg.AssetSelection]:
    return lambda source: dg.AssetSelection.assets(asset_key(layer, source))


def _checks_of(spec: CheckSpec[Any]) -> Callable[[BaseSource], dg.AssetSelection]:
    return lambda source: dg.AssetSelection.checks(*spec.keys(source))


VOLUMETRY = Rhythm(
    "volumetry",
    "Compare the counts of the chain.",
    # The shortest that a table declares; a table with a longer one is not counted each time.
    every=_shortest,
    selects=lambda source: dg.AssetSelection.checks(*checks_of_counts(source)),
    why_skip=_why_not_counted,
    due=_counts_due,
)
ROWS = Rhythm(
    "reconcile",
    "Compare every row of silver with the source's, in two steps.",
    every=lambda source: source.rows_every if source.rows_tables else None,
    selects=_checks_of(RECONCILED_IN_STEPS),
    # Sources do not begin in the same minute.
    minute=lambda source: crc32(source.name.encode()) % 1440,
)
RHYTHMS: tuple[Rhythm, ...] = (
    VOLUMETRY,
    Rhythm(
        "ledger",
        "Count every event by window, in every link, with its fate.",
        every=lambda source: source.ledger.every,
        selects=lambda source: dg.AssetSelection.assets(*[asset_key("ledger", source, table) for table in source.tables]),
        why_skip=_why_not_booked,
    ),
    Rhythm(
        "maintain",
        "Make small files one, take gone rows out, remove old commits and files.",
        every=lambda source: source.maintenance.every,
        selects=_assets_about(names.MAINTENANCE),
    ),
    Rhythm(
        "cut",
        "Make a consistent cut of all tables, and keep it.",
        every=lambda source: source.cuts.every if source.cuts else None,
        selects=_assets_about(names.CUT),
    ),
    Rhythm(
        "drill",
        "Restore the newest backup beside the lake, and compare it with silver.",
        every=lambda source: source.drill.every if source.drill else None,
        selects=_assets_about(names.DRILL),
    ),
    ROWS,
    Rhythm(
        "windows",
        "Bring windowed results up to silver, and prove them.",
        every=lambda source: min((windows.declared.trigger for windows in windows_of(source)), default=None),
        # With their checks, but for the one that costs the source a pass over its table.
        selects=lambda source: (
            dg.AssetSelection.assets(*[dg.AssetKey(windows.key) for windows in windows_of(source)])
            - dg.AssetSelection.checks(*WINDOWS_EQUAL_SOURCE.keys(source))
        ),
        why_skip=lambda source, _: (
            None
            if any(is_behind(settings.lake(), windows) for windows in windows_of(source))
            else "silver has folded nothing since the windows were refined"
        ),
    ),
    Rhythm(
        "sums",
        "Compare windowed results with SQL over the source.",
        every=lambda source: source.volumetry.idle_every if WINDOWS_EQUAL_SOURCE.keys(source) else None,
        selects=_checks_of(WINDOWS_EQUAL_SOURCE),
    ),
)


# Dagster's runs of long ago, with their events and logs: removed each day, but for those that tell what things are by now.
#
# Ticks Dagster removes itself, as dagster.yaml says (`retention`). It has no setting for runs.
VARIABLE = "CDC_RUNS_KEPT"
"""Days for which ended runs are kept; 0: for ever."""
JOB = "remove_old_runs"
DAYS = 30
OF_LOCATION = ".dagster/repository"
"""The tag of the code location that a run is of: those of others are none of our business."""
MOST, MOST_SECONDS = 20_000, 1_800.0
"""One run of the job removes so many, for so long; the next day's goes on."""
_ENDED_RUNS = [DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED]


def days_kept() -> int:
    """What CDC_RUNS_KEPT says. Raises SettingError: that is no number of days."""
    days_text = settings.lookup(VARIABLE) or str(DAYS)
    if not days_text.isdecimal():
        raise SettingError(f"{VARIABLE}={days_text} is no number of days; 0 keeps runs for ever")
    return int(days_text)


def build_old_runs(checks: Sequence[dg.AssetCheckKey]) -> tuple[dg.JobDefinition, dg.ScheduleDefinition]:
    """The job that removes them, and its schedule: at night. `checks` are those of the code location."""

    @dg.op(name=f"cdc_{JOB}", description=f"Remove runs that ended more than {VARIABLE} days ago, with their events and logs.")
    def remove(context: dg.OpExecutionContext) -> None:
        location = context.run.tags.get(OF_LOCATION)
        if location is None:
            raise dg.Failure(f"the run has no tag {OF_LOCATION}, so that nobody knows whose runs are to be removed")
        days = days_kept()
        gone = remove_old_runs(context.instance, location, days, checks) if days else 0
        context.log.info("%s of more than %s removed", quantity(gone, "run"), quantity(days, "day"))
        context.add_output_metadata({"cdc/runs_removed": gone, "cdc/days_kept": days})

    @dg.job(name=JOB, description=f"Runs are kept for {VARIABLE} days ({DAYS}).")
    def job() -> None:
        remove()

    status = dg.DefaultScheduleStatus.RUNNING
    return job, dg.ScheduleDefinition(job=job, cron_schedule="40 3 * * *", default_status=status)


def remove_old_runs(instance: dg.DagsterInstance, location: str, days: int, checks: Sequence[dg.AssetCheckKey] = ()) -> int:
    """How many runs of the location are removed. One that an asset's or a check's newest word is of stays."""
    until = datetime.now(timezone.utc) - timedelta(days=days)
    old = RunsFilter(statuses=_ENDED_RUNS, created_before=until, tags={OF_LOCATION: location})
    run_ids = instance.get_run_ids(filters=old, limit=MOST)
    kept, gone, by = _newest_words(instance, checks) if run_ids else frozenset(), 0, time.monotonic() + MOST_SECONDS
    for run_id in run_ids:
        if run_id in kept:
            continue
        if time.monotonic() > by:
            break
        instance.compute_log_manager.delete_logs(prefix=[run_id])
        instance.delete_run(run_id)
        gone += 1
    return gone


def _newest_words(instance: dg.DagsterInstance, checks: Sequence[dg.AssetCheckKey]) -> frozenset[str]:
    entries = [record.asset_entry for record in instance.get_asset_records()]
    events = [event for entry in entries for event in (entry.last_materialization, entry.last_observation) if event]
    check_records = instance.event_log_storage.get_latest_asset_check_execution_by_key(checks) if checks else {}
    return frozenset({event.run_id for event in events} | {record.run_id for record in check_records.values()})
