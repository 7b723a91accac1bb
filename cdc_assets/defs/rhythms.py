"""The jobs of a source on declared rhythms, each with its schedule: volumetry, rows, ledger, maintenance, cuts, drill, windows.

A job is one run for all tables of the source that are due. A tick is not worth a run where the next one is near and a backlog
goes
first. A source is not counted again while nothing has happened since all of it was counted, and was right (ADR 0052): two idle
sources filled the list of runs with 24 counts an hour that found what the one before had found.
"""

import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from zlib import crc32

import dagster as dg
import psutil
from dagster import DagsterRunStatus, RunsFilter
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord, AssetCheckExecutionRecordStatus

from cdc_assets.chain.windowed_results import is_behind, windows_of
from cdc_assets.defs.asset_specs import asset_key
from cdc_assets.defs.backup_assets import key_of_drilled
from cdc_assets.defs.capture_checks import build_mirror_checks, flow_key, has_flow_check, has_models, model_key, preflight_key
from cdc_assets.defs.instance_runs import last_materializations, run_under_way
from cdc_assets.defs.row_checks import build_quarantine_checks, history_key, rows_keys, tables_with_history
from cdc_assets.defs.schema_and_fresh_checks import schema_key
from cdc_assets.defs.upkeep_assets import cuts_key
from cdc_assets.defs.volumetry_checks import build_volumetry_checks, check_key
from cdc_assets.defs.windows_assets import windows_to_ask
from cdc_assets.proof.event_ledger import behind, places
from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import RunsKeptError
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.source_settings import Cuts
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


def rhythmic(
    job: UnresolvedAssetJobDefinition,
    source: BaseSource,
    every: timedelta,
    *,
    why_skip: Callable[[dg.DagsterInstance], str | None] = lambda _: None,
    due: Callable[[dg.DagsterInstance], Sequence[dg.AssetCheckKey] | None] = lambda _: None,
    minute: int = 0,
) -> dg.ScheduleDefinition:
    """`<job>_schedule`, from the first table in silver on; `why_skip` says why a tick is not worth a run.

    One run of the job at a time: on a machine that is too slow for the rhythm, a run per tick would wait for the one before it,
    and each takes memory and processor meanwhile (ten runs of one job were seen, `dagster-code` at 2.1 GB).

    `due`: the checks that it is for, where not for all of the job's. `minute` as in cron.
    """

    @dg.schedule(
        name=f"{job.name}_schedule",
        job=job,
        cron_schedule=cron(every, minute),
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )
    def tick(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        silver = [asset_key("silver", source, table) for table in source.tables]
        if not last_materializations(context.instance, silver):
            return dg.SkipReason(f"nothing of {source.name} is in silver yet")
        if missed := why_dropped(context.scheduled_execution_time, minutes=whole_minutes(every)):
            return dg.SkipReason(missed)
        if run := run_under_way(context.instance, job.name):
            return dg.SkipReason(f"run {run} of {job.name} has not ended; the next tick after its end is run")
        if reason := why_skip(context.instance):
            return dg.SkipReason(reason)
        return dg.RunRequest(asset_check_keys=due(context.instance))

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


def build_volumetry_job(source: BaseSource) -> UnresolvedAssetJobDefinition:
    """Runs the checks and nothing else."""
    return dg.define_asset_job(
        f"volumetry_{source.name}",
        selection=dg.AssetSelection.checks(*_keys(source)),
        description="Compare the counts of the chain.",
    )


def _keys(source: BaseSource) -> list[dg.AssetCheckKey]:
    steps = [*build_volumetry_checks(source), build_quarantine_checks(source)]
    keys = {key for step in steps for key in step.check_keys}
    keys |= {history_key(source, table) for table in tables_with_history(source)}
    if has_models(source):
        keys |= {model_key(source, table) for table in source.tables}
    if has_flow_check(source):
        keys.add(flow_key(source))
    if source.cuts:  # told also where no run of cuts comes
        keys.add(cuts_key(source))
    if source.drill:  # likewise
        keys.add(key_of_drilled(source))
    if source.captured:
        keys.add(preflight_key(source.captured))
    if names.is_mirrored(source):
        keys |= set(build_mirror_checks(source).check_keys)
    return sorted(keys, key=str)


def build_volumetry_schedule(source: BaseSource, job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """At the shortest rhythm that a table of the source declares, in whole minutes; a table with a longer one not each time.

    A source where nothing has happened is counted less often.
    """
    shortest = min(_every(source, table) for table in source.tables)

    def due(instance: dg.DagsterInstance) -> Sequence[dg.AssetCheckKey] | None:
        return checks_due(source, instance, shortest, now=time.time())

    def why_skip(instance: dg.DagsterInstance) -> str | None:
        keys = due(instance)
        return why_idle(source, instance, _keys(source) if keys is None else keys, shortest, now=time.time())

    return rhythmic(job, source, shortest, due=due, why_skip=why_skip)


def checks_due(
    source: BaseSource, instance: dg.DagsterInstance, shortest: timedelta, *, now: float
) -> Sequence[dg.AssetCheckKey] | None:
    """All checks but those of tables whose own rhythm is longer and which were counted within it; None: all.

    By when they were last counted, so that a tick that was left out is made up for by the next.
    """
    own = {check_key("bronze", source, t): t for t in source.tables if _every(source, t) > shortest}
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
    left = {check_key(layer, source, table) for layer in ("bronze", "silver", "backup") for table in resting}
    left |= {key(source, table) for table in resting for key in (schema_key, history_key)}
    return [key for key in _keys(source) if key not in left] if left else None


def _every(source: BaseSource, table: Table) -> timedelta:
    return (table.volumetry or source.volumetry).every


def build_rows_job(source: BaseSource) -> UnresolvedAssetJobDefinition:
    """Runs the checks and nothing else."""
    return dg.define_asset_job(
        f"reconcile_{source.name}",
        selection=dg.AssetSelection.checks(*rows_keys(source)),
        description="Compare every row of silver with the source's, in two steps.",
    )


def build_rows_schedule(source: BaseSource, job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """As often as `reconciliation.every` says, else once a day; sources do not begin in the same minute."""
    assert source.rows_every is not None
    return rhythmic(job, source, source.rows_every, minute=crc32(source.name.encode()) % 1440)


def build_ledger_job(source: BaseSource) -> UnresolvedAssetJobDefinition:
    """The ledger assets of a source with their checks."""
    keys = [asset_key("ledger", source, table) for table in source.tables]
    return dg.define_asset_job(
        f"ledger_{source.name}",
        selection=dg.AssetSelection.assets(*keys),
        description="Count every event by window, in every link, with its fate.",
    )


def build_ledger_schedule(source: BaseSource, job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """The processing-time trigger: every run emits a pane of each window that has changed."""

    def nothing_new(_: dg.DagsterInstance) -> str | None:
        ledger_places = places(settings.lake(), source)
        if any(behind(settings.lake(), source, table, ledger_places.get(names.table_name(table))) for table in source.tables):
            return None
        return "silver has folded nothing since the last count"

    return rhythmic(job, source, source.ledger.every, why_skip=nothing_new)


def build_maintenance_job(source: BaseSource) -> UnresolvedAssetJobDefinition:
    """The maintenance asset with its check."""
    return dg.define_asset_job(
        f"maintain_{source.name}",
        selection=dg.AssetSelection.assets(asset_key(names.MAINTENANCE, source)),
        description="Make small files one, take gone rows out, remove old commits and files.",
    )


def build_maintenance_schedule(source: BaseSource, job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """As often as `maintenance.every` says."""
    return rhythmic(job, source, source.maintenance.every)


def build_cut_job(source: BaseSource) -> UnresolvedAssetJobDefinition:
    """The cut asset with its check."""
    return dg.define_asset_job(
        f"cut_{source.name}",
        selection=dg.AssetSelection.assets(asset_key(names.CUT, source)),
        description="Make a consistent cut of all tables, and keep it.",
    )


def build_cut_schedule(source: BaseSource, job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """As often as `cuts.every` says."""
    return rhythmic(job, source, (source.cuts or Cuts()).every)


def build_drill_job(source: BaseSource) -> UnresolvedAssetJobDefinition:
    """The drill asset with its check."""
    return dg.define_asset_job(
        f"drill_{source.name}",
        selection=dg.AssetSelection.assets(asset_key(names.DRILL, source)),
        description="Restore the newest backup beside the lake, and compare it with silver.",
    )


def build_drill_schedule(source: BaseSource, job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """As often as `drill.every` says."""
    if source.drill is None:
        raise ValueError(f"source {source.name} declares no drill")
    return rhythmic(job, source, source.drill.every)


def build_windows_job(source: BaseSource) -> UnresolvedAssetJobDefinition:
    """The windows of a source with their checks, but for the one that costs the source a pass over its table."""
    whole = dg.AssetSelection.assets(*[dg.AssetKey(windows.key) for windows in windows_of(source)])
    windows_of_source = windows_to_ask(source)
    return dg.define_asset_job(
        f"windows_{source.name}",
        selection=whole - dg.AssetSelection.checks(*windows_of_source) if windows_of_source else whole,
        description="Bring windowed results up to silver, and prove them.",
    )


def build_windows_schedule(source: BaseSource, job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """The trigger in processing time, at the shortest that is declared."""

    def nothing_new(_: dg.DagsterInstance) -> str | None:
        if any(is_behind(settings.lake(), windows) for windows in windows_of(source)):
            return None
        return "silver has folded nothing since the windows were refined"

    return rhythmic(job, source, min(windows.declared.trigger for windows in windows_of(source)), why_skip=nothing_new)


def build_windows_source_job(source: BaseSource) -> UnresolvedAssetJobDefinition:
    """Runs the checks and nothing else."""
    return dg.define_asset_job(
        f"sums_{source.name}",
        selection=dg.AssetSelection.checks(*windows_to_ask(source)),
        description="Compare windowed results with SQL over the source.",
    )


def build_windows_source_schedule(source: BaseSource, job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """As often as an idle source is counted (`volumetry.idle_every`)."""
    return rhythmic(job, source, source.volumetry.idle_every)


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
    """What CDC_RUNS_KEPT says.

    Raises:
        RunsKeptError: that is no number of days.
    """
    days_text = settings.lookup(VARIABLE) or str(DAYS)
    if not days_text.isdecimal():
        raise RunsKeptError(f"{VARIABLE}={days_text} is no number of days; 0 keeps runs for ever")
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
