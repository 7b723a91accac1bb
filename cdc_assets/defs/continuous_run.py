"""The long run of a source in continuous mode: the loop in a thread, its events as the run's own, and who may end it.

It ends by itself after some hours, so that its log stays small, when its sensor is switched off (which is how one pauses), and
when newer definitions ask for it. In between it leaves a sign of life, which the sensor reads.

A loop makes some commits a second, and Dagster keeps each event for ever. So the commits of half a minute are told as one,
with the same figures and how far silver is behind; cheap checks follow once a minute at most.
"""

import json
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.scheduler.instigation import InstigatorStatus
from typing_extensions import Self

from cdc_assets.chain.bronze_append import AppendedTable
from cdc_assets.chain.continuous_loop import ContinuousLoop, Listener, StreamFigures, open_work
from cdc_assets.chain.continuous_passes import FoldedTable
from cdc_assets.chain.continuous_source import CarriedPass, SourceWork
from cdc_assets.chain.lag import TableLag
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.asset_specs import LOG_VERSION, AssetEvent, Event, asset_key, change_event, silver_version, version_in
from cdc_assets.defs.check_results import evaluation_of
from cdc_assets.defs.instance_runs import last_materializations
from cdc_assets.defs.lake_assets import metadata_of_append, metadata_of_fold
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.defs.schema_and_fresh_checks import schema_result
from cdc_assets.defs.volumetry_checks import quarantine_evaluation
from cdc_assets.registry import names
from cdc_assets.registry.errors import CdcAssetsError
from cdc_assets.registry.registry_copy import is_gone
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity

EVERY_SECONDS, CHECKS_SECONDS = 30.0, 60.0
Lags = Callable[[], Mapping[str, TableLag]]


class ContinuousReports:
    """Of one source; the commits that are not told yet, and when each table was told of last."""

    def __init__(
        self,
        lake: str,
        source: BaseSource,
        *,
        told: Callable[[dg.AssetKey], str | None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`told`: the data version that Dagster knows of an asset."""
        self._lake, self._source, self._clock, self._began = lake, source, clock, clock()
        self._appended: dict[str, AppendedTable] = {}
        self._folded: dict[str, FoldedTable] = {}
        self._told: dict[tuple[str, str], float] = {}
        self._version_before, self._versions = told, dict[dg.AssetKey, str | None]()

    def add(self, done: CarriedPass) -> None:
        """What a pass has done."""
        for appended in done.appended:
            before = self._appended.get(_short(appended))
            self._appended[_short(appended)] = before + appended if before else appended
        for folded in done.folded:
            folded_before = self._folded.get(_short(folded))
            self._folded[_short(folded)] = folded_before + folded if folded_before else folded

    def due(self, lags: Lags, *, all_of_it: bool = False) -> Iterator[Event]:
        """The events whose time has come, or all; `lags` is asked where there is one, and may know of no table."""
        now = self._clock()
        layers: tuple[tuple[str, Mapping[str, AppendedTable | FoldedTable]], ...]
        layers = (("bronze", self._appended), ("silver", self._folded))
        due = [
            (layer, short)
            for layer, waiting in layers
            for short in waiting
            if all_of_it or now - self._told.get((layer, short), -EVERY_SECONDS) >= EVERY_SECONDS
        ]
        behind = lags() if due else {}
        for layer, short in due:
            seconds = now - self._told.get((layer, short), self._began)
            self._told[layer, short] = now
            yield self._event(layer, short, seconds, behind.get(short))
            if layer == "silver":
                yield from self._checks(self._source.table(short), now)

    def _event(self, layer: str, short: str, seconds: float, lag: TableLag | None) -> AssetEvent:
        table = self._source.table(short)
        key, version_before, log = asset_key(layer, self._source, table), None, None
        version: str | None = LOG_VERSION
        if layer == "bronze":
            appended = self._appended.pop(short)
            metadata, records = metadata_of_append(appended), appended.added
        else:
            one = self._folded.pop(short)
            metadata, records = metadata_of_fold(self._lake, self._source, table, one.found, one.results), one.events
            version_before = self._versions[key] if key in self._versions else self._version_before(key)
            version = self._versions[key] = silver_version(self._lake, self._source, table, version_before)
            log = asset_key("bronze", self._source, table)
        metadata = {**metadata, **_flow(records, seconds, lag)}
        return change_event(key, metadata, version, version_before, description="by continuous mode", log=log)

    def _checks(self, table: Table, now: float) -> Iterator[dg.AssetCheckEvaluation]:
        checks_key = ("checks", names.table_name(table))
        if now - self._told.get(checks_key, -CHECKS_SECONDS) < CHECKS_SECONDS:
            return
        self._told[checks_key] = now
        yield quarantine_evaluation(self._lake, self._source, table)
        yield evaluation_of(schema_result(self._lake, self._source, table))


def _short(each: AppendedTable | FoldedTable) -> str:
    return names.table_name(each.table)


def _flow(records: int, seconds: float, lag: TableLag | None) -> dict[str, Any]:
    # As numbers, so that the asset's page plots them; what is not known is left out.
    flow: dict[str, Any] = {"cdc/mode": "continuous", "cdc/throughput": round(records / seconds, 1) if seconds else 0.0}
    if lag is not None:
        flow["cdc/lag_records"] = lag.records
        flow |= {} if lag.seconds is None else {"cdc/lag_seconds": round(lag.seconds, 3)}
    return flow


ENDS_TAG = "cdc/ends"
"""Set on a run by newer definitions: it ends, and the next one has them."""
LONGEST_SECONDS = 6 * 3600.0
_ASK_SECONDS, _FIGURES_SECONDS = 5.0, 30.0
_TAKE_SECONDS = 0.5


def job_name(source: BaseSource) -> str:
    """The job whose run carries the source."""
    return f"continuous_{source.name}"


def keeper_name(source: BaseSource) -> str:
    """The sensor that keeps that run alive, and is the switch of continuous mode."""
    return f"keep_continuous_{source.name}"


def build_continuous_job(source: BaseSource, declared_in: Path | None = None) -> dg.JobDefinition:
    """One op: it runs for hours, and materializes bronze and silver; it ends when `declared_in` declares the source no longer."""

    @dg.op(
        name=names.op_name("continuous", source),
        out={},
        description="Bronze and silver in a loop; what it has committed is told twice a minute.",
    )
    def continuous(context: dg.OpExecutionContext, platform: PlatformResource) -> Iterator[AssetEvent]:
        yield from carry_until_over(context, platform, source, declared_in)

    @dg.job(
        name=job_name(source),
        executor_def=dg.in_process_executor,
        description="Continuous mode (docs/how-to/continuous.md): its sensor starts it, and starts it again.",
    )
    def job() -> None:
        continuous()

    return job


@dataclass(frozen=True)
class SignOfLife:
    """What a run leaves in Dagster's storage every few seconds: one row per source, written over."""

    run_id: str
    time: float
    text: str = ""

    @classmethod
    def read(cls, instance: dg.DagsterInstance, source: BaseSource) -> Self | None:
        """The newest; None: there was never one."""
        key = _life_key(source)
        value = instance.daemon_cursor_storage.get_cursor_values({key}).get(key)
        return cls(**json.loads(value)) if value else None

    def leave(self, instance: dg.DagsterInstance, source: BaseSource) -> None:
        """Over the last one."""
        value = json.dumps({"run_id": self.run_id, "time": self.time, "text": self.text})
        instance.daemon_cursor_storage.set_cursor_values({_life_key(source): value})


def _life_key(source: BaseSource) -> str:
    return f"cdc_assets/continuous/{source.name}"


def end_long_runs(instance: dg.DagsterInstance, runs: Sequence[dg.DagsterRun], source: BaseSource, why: str) -> None:
    """Ask the source's among the runs under way to end: each does within seconds, after its last commit."""
    for run in runs:
        if run.job_name == job_name(source) and ENDS_TAG not in run.tags:
            instance.add_run_tags(run.run_id, {ENDS_TAG: why})


def carry_until_over(
    context: dg.OpExecutionContext, platform: Platform, source: BaseSource, declared_in: Path | None
) -> Iterator[AssetEvent]:
    """The events of a run as they come.

    Raises:
        Exception: as the loop has raised it.
    """
    run = _ContinuousRun(context, platform, source, declared_in)
    run.start()
    try:
        while run.is_alive():
            yield from run.take()
            run.ask()
    finally:
        # Also where the run is terminated: the commit that is under way ends.
        run.over.set()
        run.join()
    yield from run.take()
    context.log.info("ends: %s", run.why or "it was asked to")
    if run.crash:
        raise run.crash


class _ContinuousRun(threading.Thread):
    """The loop's thread, and what the run's own thread asks Dagster for it."""

    def __init__(self, context: dg.OpExecutionContext, platform: Platform, source: BaseSource, declared_in: Path | None) -> None:
        super().__init__(name=job_name(source), daemon=True)
        self.over, self.why = threading.Event(), ""
        self.crash: Exception | None = None
        self._context, self._platform, self._source, self._declared_in = context, platform, source, declared_in
        self._events: queue.Queue[Event] = queue.Queue()
        self._reports = ContinuousReports(platform.lake, source, told=self._version_before)
        self._until, self._asked, self._text = time.monotonic() + LONGEST_SECONDS, float("-inf"), "it begins"

    def run(self) -> None:
        """The loop, until it is over."""
        try:
            with open_work(Chain(self._platform, self._source), self._context.log.info) as open_folds:
                listener = Listener(
                    is_over=self.over.is_set,
                    tell_pass=lambda done: self._add(open_folds, done),
                    tell_figures=self._note,
                    say=self._context.log.info,
                    every=_FIGURES_SECONDS,
                )
                ContinuousLoop(open_folds, listener).run()
                self._report(open_folds, all_of_it=True)
        except Exception as error:  # noqa: BLE001 - raised again by the run's own thread
            self.crash = error

    def take(self) -> Iterator[AssetEvent]:
        """What has been told by now; waits a moment for the first. What checks say is told beside the run.

        Of each check a run has one record, with the time of the first: it would never be the check's newest.
        """
        try:
            event = self._events.get(timeout=_TAKE_SECONDS if self.is_alive() else 0.001)
            while True:
                if isinstance(event, dg.AssetCheckEvaluation):
                    self._context.instance.report_runless_asset_event(event)
                else:
                    yield event
                event = self._events.get_nowait()
        except queue.Empty:
            return

    def ask(self) -> None:
        """Now and then: leave a sign of life, and ask whether the run is to end."""
        now = time.monotonic()
        if now - self._asked < _ASK_SECONDS:
            return
        self._asked, instance = now, self._context.instance
        SignOfLife(self._context.run_id, time.time(), self._text).leave(instance, self._source)
        self.why = self.why or self._why_over(instance, now)
        if self.why:
            self.over.set()

    def _why_over(self, instance: dg.DagsterInstance, now: float) -> str:
        if now > self._until:
            return f"a run lasts {LONGEST_SECONDS / 3600:.0f} hours, the sensor starts the next one"
        run = instance.get_run_by_id(self._context.run_id)
        if run is not None and ENDS_TAG in run.tags:
            return run.tags[ENDS_TAG]
        states = instance.all_instigator_state()
        if any(s.instigator_name == keeper_name(self._source) and s.status == InstigatorStatus.STOPPED for s in states):
            return f"the sensor {keeper_name(self._source)} is switched off; switched on, it starts the next run"
        gone = self._declared_in is not None and is_gone(self._source.name, self._declared_in)
        return f"{self._declared_in} declares {self._source.name} no longer" if gone else ""

    def _version_before(self, key: dg.AssetKey) -> str | None:
        return version_in(last_materializations(self._context.instance, [key]).get(key))

    def _add(self, work: SourceWork, done: CarriedPass) -> None:
        self._reports.add(done)
        self._report(work)

    def _report(self, work: SourceWork, *, all_of_it: bool = False) -> None:
        def lags() -> Mapping[str, TableLag]:
            try:
                return work.lags()
            except CdcAssetsError:
                # The next pass meets it, and tells it; what was committed is told all the same.
                return {}

        for event in self._reports.due(lags, all_of_it=all_of_it):
            self._events.put(event)

    def _note(self, figures: StreamFigures) -> None:
        lag = figures.lag
        age = "" if lag.seconds is None else f", the oldest {lag.seconds:.1f} s old"
        behind = "caught up" if figures.is_caught_up else f"{quantity(lag.records, 'record')} behind{age}"
        failing = f", failing: {', '.join('/'.join(table_path) for table_path in figures.failing)}" if figures.failing else ""
        self._text = f"{figures.records_per_second:.0f}/s, {behind}{failing}"
        self._context.log.info(self._text)
