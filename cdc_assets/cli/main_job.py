"""The main job of `cdc up`: transport, a burst of live changes, caught up, counted; run where Dagster runs, its lines
and its final table printed.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from cdc_assets.chain.fold_specs import refusals_now
from cdc_assets.cli.progress import console, status
from cdc_assets.cli.verdict_lines import is_red, print_verdicts
from cdc_assets.clients.delta_log import silver_rows
from cdc_assets.clients.platform import Platform
from cdc_assets.defs.check_specs import MANIFEST_PARITY, RECONCILED, RECORD_PARITY
from cdc_assets.defs.instance_runs import root_message, step_failures
from cdc_assets.defs.ledger_assets import keys_without_ledger
from cdc_assets.defs.overall_jobs import TRANSPORT_JOB, VOLUMETRY_JOB
from cdc_assets.proof.caught_up import Awaited, Behind, wait_caught_up
from cdc_assets.proof.chain_verdicts import (
    NOT_RUN,
    CheckVerdict,
    RowsCompared,
    of_metadata,
    summary,
    verdict,
    verdict_text,
    verdicts_of_table,
)
from cdc_assets.registry import names, settings
from cdc_assets.registry.display_text import prose_of_markdown
from cdc_assets.registry.errors import FailuresError
from cdc_assets.registry.loader import load_sources
from cdc_assets.registry.names import asset_key, op_name, silver_path, table_name
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from cdc_assets.stack.component_state import HEALTHY, StackState
from cdc_assets.stack.components.dagster_services import TOKEN
from cdc_assets.stack.examples.example_sources import burst
from cdc_assets.stack.home import Home
from spark.errors import quantity

if TYPE_CHECKING:
    import dagster as dg


# The main job of `cdc up`, step by step: transport, a burst of live changes, caught up, counted.
#
# The sensors that run in Dagster carry every record; what runs here only declares and counts. `lag` is the time from the
# end of the burst until silver and backup held all of it.
#
# Its jobs run in this process, recorded in the instance as any other run. Not through the webserver: a run launched there
# starts a process that loads the code anew, 4 to 20 s while Spark and the daemon start on the same two cores, and the jobs here
# are short (ADR 0012).
#
# The sensors ask again for what a failed run has not carried, so one failure is news and no end; only when the same step fails
# time after time does nothing that is waited for come any more.
@dataclass(frozen=True)
class CheckOutcome:
    """The latest evaluation of a check."""

    passed: bool
    description: str
    metadata: dict[str, Any]
    warns: bool = False
    """When it does not pass, that is a warning."""


CheckPlace = tuple[tuple[str, ...], str]
"""`(asset key, check name)`."""
Outcomes = dict[CheckPlace, CheckOutcome]


def run_job(job: str, *, console: Console, must_succeed: bool = True, checks: Set[CheckPlace] = frozenset()) -> Outcomes:
    """Run a job of the code location; what every check said that it evaluated.

    Args:
        job: its name.
        console: where progress goes while Dagster has standard output.
        must_succeed: whether a failed run is an error.
        checks: which checks of the job alone; empty: all.

    Raises:
        FailuresError: when it did not succeed (unless told otherwise): each failed step's reason, and the run's page.
    """
    import dagster as dg

    from cdc_assets.definitions import defs
    from cdc_assets.defs.overall_jobs import execute_here

    with dg.DagsterInstance.get() as instance, _keep_console(console):
        keys = {dg.AssetCheckKey(dg.AssetKey(asset), name) for asset, name in checks}
        selected_job = defs.resolve_job_def(job).get_subset(asset_check_selection=keys)
        result = execute_here(selected_job, instance)
    if must_succeed and not result.success:
        page = f"{settings.address('CDC_DAGSTER_URL')}/runs/{result.run_id}"
        reasons = _reasons(result)
        reasons_text = "; ".join(f"{step}: {reason}" for step, reason in reasons.items()) or "no step says why"
        raise FailuresError(f"job {job} failed: {reasons_text}; see {page}", reasons)
    return {
        (tuple(evaluation.asset_key.path), evaluation.check_name): CheckOutcome(
            evaluation.passed,
            prose_of_markdown(evaluation.description or ""),
            {key: value.value for key, value in evaluation.metadata.items()},
            evaluation.severity == dg.AssetCheckSeverity.WARN,
        )
        for evaluation in result.get_asset_check_evaluations()
    }


def _reasons(result: dg.ExecuteInProcessResult) -> dict[str, str]:
    failures = result.filter_events(lambda event: event.is_step_failure)
    return {str(event.step_key): root_message(event.step_failure_data.error) for event in failures}


@contextmanager
def _keep_console(console: Console) -> Iterator[None]:
    # Dagster takes standard output and error for the run's logs; progress still goes where it went.
    before = console.file
    with os.fdopen(os.dup(before.fileno()), "w", encoding="utf-8") as own:
        console.file = own
        try:
            yield
        finally:
            console.file = before


_IN_A_ROW = 6
_ASK_SECONDS = 3.0


class FailedRuns:
    """The runs that failed since it was made, each told once.

    A Spark or a broker that is started again costs two or three runs.
    """

    def __init__(self, instance: dg.DagsterInstance, tell: Callable[[str], None]) -> None:
        """`tell` prints a line for people."""
        self._instance, self._tell = instance, tell
        self._since, self._asked = datetime.now(timezone.utc), 0.0
        self._seen: set[str] = set()
        self._in_a_row: Counter[str] = Counter()

    def look(self) -> None:
        """Tell of new ones; asks every few seconds only.
        Raises FailuresError: when a step failed six times with no success between; its reason and the run's page."""
        if time.monotonic() < self._asked + _ASK_SECONDS:
            return
        self._asked = time.monotonic()
        for run_id, failures in self._new_ends():
            for step, reason in failures:
                self._in_a_row[step] += 1
                page = f"{settings.address('CDC_DAGSTER_URL')}/runs/{run_id}"
                if self._in_a_row[step] >= _IN_A_ROW:
                    raise FailuresError(f"{step} failed {_IN_A_ROW} times in a row: {reason}; see {page} and ./cdc status")
                self._tell(f"{step} failed, the sensor asks again: {reason}; see {page}")

    def _new_ends(self) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        """Runs that have ended meanwhile, oldest first, each with its failed steps; successes end a step's row."""
        import dagster as dg

        ended = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.SUCCESS]
        records = self._instance.get_run_records(dg.RunsFilter(statuses=ended, updated_after=self._since), ascending=True)
        for record in records:
            run = record.dagster_run
            if run.run_id in self._seen:
                continue
            self._seen.add(run.run_id)
            if self._in_a_row:
                for event in self._instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_SUCCESS):
                    self._in_a_row.pop(str(event.step_key), None)
            if run.status == dg.DagsterRunStatus.FAILURE:
                failures = step_failures(self._instance, run.run_id)
                yield run.run_id, failures or [("a run", "ended before any of its steps; its page says why")]


_NOTHING = -1
_NOW = math.inf
"""When a comparison of this very run was made."""
CheckOutcomes = Mapping[tuple[tuple[str, ...], str], CheckOutcome]


@dataclass(frozen=True)
class Line:
    """One table's counts, as its checks found them, and what all checks of its chain say.

    A count is None where its check could not count, and -1 where there is nothing to count: rows of a source without a
    database, objects of one without a backup. `part`: of which part of the table the rows of source and silver are, empty:
    of the whole (`reconciliation.max_rows`). `compared`: the last
    comparison of rows, which may be an earlier run's; None: there was none.
    """

    table: str
    source_rows: int | None
    topic: int | None
    mirror: int | None
    bronze: int | None
    silver_rows: int | None
    objects: int | None
    lag_seconds: float | None
    verdicts: tuple[CheckVerdict, ...]
    part: str = ""
    compared: RowsCompared | None = None


def line_of(
    source: BaseSource,
    table: Table,
    outcomes: CheckOutcomes,
    verdicts: Sequence[CheckVerdict],
    *,
    lag_seconds: float | None,
    silver_rows: int | None = None,
) -> Line:
    """What the checks of one table say. `silver_rows`: by silver's own log, where no check compares them with a source's."""
    figures = {
        spec.layer: outcomes.get((names.asset_key(spec.layer, source, table), spec.name))
        for spec in (RECORD_PARITY, RECONCILED, MANIFEST_PARITY)
    }
    compared = source.asked is not None
    return Line(
        table=names.table_name(table),
        source_rows=_number(figures["silver"], "cdc/source_rows") if compared or figures["silver"] else _NOTHING,
        topic=_number(figures["bronze"], "cdc/topic_records"),
        mirror=_number(figures["bronze"], "cdc/mirror_records"),
        bronze=_number(figures["bronze"], "cdc/bronze_rows"),
        silver_rows=_number(figures["silver"], "cdc/silver_rows") if compared or figures["silver"] else silver_rows,
        objects=_number(figures["backup"], "cdc/objects") if source.backup else _NOTHING,
        lag_seconds=lag_seconds,
        verdicts=tuple(verdicts_of_table(verdicts, source.name, names.table_name(table))),
        part=_part(figures["silver"]),
        compared=of_metadata(figures["silver"].metadata, _NOW) if figures["silver"] else None,
    )


def verdicts_of(outcomes: CheckOutcomes, declared: Iterable[tuple[tuple[str, ...], str]]) -> list[CheckVerdict]:
    """Of every declared check: what it found, or that it did not run."""
    return [
        verdict(*key, passed=outcome.passed, warns=outcome.warns, description=outcome.description)
        if (outcome := outcomes.get(key))
        else CheckVerdict(*key, NOT_RUN, "it did not run")
        for key in sorted(declared)
    ]


def print_table(console: Console, source: BaseSource, lines: Sequence[Line], of_source: Sequence[CheckVerdict] = ()) -> None:
    """One source; `of_source`: what the checks say that belong to no table, such as the connector's."""
    table = RichTable(title=f"\n{source.name}", title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("table", no_wrap=True)
    for column in ("source", "topic", "mirror", "bronze", "silver", "objects", "lag s"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("checks")
    for line in lines:
        counts = (line.source_rows, line.topic, line.mirror, line.bronze, line.silver_rows, line.objects)
        values = ["?" if value is None else "-" if value == _NOTHING else f"{value:,}" for value in counts]
        if line.part:
            values[0], values[4] = f"{values[0]} *", f"{values[4]} *"
        lag = "?" if line.lag_seconds is None else f"{line.lag_seconds:.1f}"
        colour = "red" if is_red(line.verdicts) else "green"
        # Rows that this run has compared need no word.
        is_compared = line.compared is not None and line.compared.at == _NOW
        checks = summary(line.verdicts) if is_compared else verdict_text(line.verdicts, line.compared)
        table.add_row(line.table, *values, lag, f"[{colour}]{checks}[/]")
    console.print(table)
    for line in lines:
        if line.part:
            console.print(f"* {line.table}: rows of a part: {escape(line.part)}; cdc reconcile counts the whole", highlight=False)
    print_verdicts(console, [*of_source, *(verdict_of_line for line in lines for verdict_of_line in line.verdicts)])


def _number(outcome: CheckOutcome | None, key: str) -> int | None:
    value = outcome.metadata.get(key) if outcome else None
    return int(value) if value is not None else None


def _part(outcome: CheckOutcome | None) -> str:
    share = str(outcome.metadata.get("cdc/share", "")) if outcome else ""
    return "" if share == "1/1" else share


_CATCH_UP_TIMEOUT = 900.0
_AWAITED = Awaited(backup=True, listed=True, refusals=refusals_now)
_LINKS = ("connector", "topic", "mirror")
_RED: Mapping[str, Any] = {"style": "red", "markup": False, "highlight": False, "soft_wrap": True}


def run_main_job(
    console: Console,
    *,
    status: Callable[[str], AbstractContextManager[Callable[[str], None]]],
    tables: Console,
    burst: Callable[[], None],
    stands: Callable[[Callable[[str], None]], None],
) -> bool:
    """Carry, count, print; True when every check of every table passed.

    Args:
        console: where progress goes.
        status: shows there what is being waited for, and is told when that changes.
        tables: where the counts go.
        burst: writes a burst of live changes into the sources.
        stands: waits until all of the stack is there, which transport does not need; says what it waits for.

    Raises:
        CdcAssetsError: naming the link that did not follow, or the step that goes on failing.
    """
    import dagster as dg

    settings.export_stack_environment()
    sources, platform = load_sources(settings.sources_folder()), Platform()
    with status("connectors, topics and mirrors") as say, dg.DagsterInstance.get() as instance:
        carried, well = _transport(console, sources)
        failed = FailedRuns(instance, console.print)
        say("a burst of live changes")
        burst()
        arrivals = _Arrivals(sources)
        stands(say)

        def progress(behind: tuple[Behind, ...]) -> None:
            say(arrivals.note(behind))
            if behind:
                failed.look()

        well = _wait(console, platform, carried, progress) and well
        say("counting every link of every chain")
        counted = _count_links(console, platform, sources)
    return _print_links(tables, platform, sources, arrivals.reached, counted) and well


def _transport(console: Console, sources: tuple[BaseSource, ...]) -> tuple[tuple[BaseSource, ...], bool]:
    """Bring connectors, topics and mirrors to what is declared; the sources that have a connector then, and whether all is well.
    Raises FailuresError: no source is carried."""
    try:
        run_job(TRANSPORT_JOB, console=console)
    except FailuresError as error:
        carried = tuple(source for source in sources if op_name("connector", source) not in error.failures)
        of_sources = {op_name(layer, source) for source in sources for layer in _LINKS}
        if not carried or not error.failures.keys() <= of_sources:
            raise
        console.print(f"{error}\nthe others go on: {', '.join(source.name for source in carried)}", **_RED)
        return carried, False
    return sources, True


def _wait(
    console: Console, platform: Platform, sources: tuple[BaseSource, ...], progress: Callable[[tuple[Behind, ...]], None]
) -> bool:
    """Until all is caught up that nothing keeps from it; whether that was all."""
    once = _Once(console)
    try:
        wait_caught_up(platform, sources, timeout=_CATCH_UP_TIMEOUT, awaited=_AWAITED, progress=progress, say=once)
    except FailuresError as error:
        console.print(str(error), **_RED)
        return False
    return True


class _Once:
    """Prints what stands in the way of a source, each thing once."""

    def __init__(self, console: Console) -> None:
        self._console, self._told = console, set[str]()

    def __call__(self, line: str) -> None:
        """Print the line, unless it was printed before."""
        if line not in self._told:
            self._told.add(line)
            self._console.print(line, style="yellow", markup=False, highlight=False, soft_wrap=True)


class _Arrivals:
    """How many seconds after the burst each table had all of it in silver and backup: `reached`, by source and table."""

    def __init__(self, sources: Sequence[BaseSource]) -> None:
        self.reached: dict[tuple[str, str], float] = {}
        self._started = time.monotonic()
        self._tables = [(source.name, table_name(table)) for source in sources for table in source.tables]

    def note(self, behind: tuple[Behind, ...]) -> str:
        """Take note of one look; what is still waited for, in words."""
        late = {(b.source, b.table) for b in behind}
        for key in self._tables:
            if key not in late:
                self.reached.setdefault(key, time.monotonic() - self._started)
        if not behind:
            return f"all of {quantity(len(self._tables), 'table')} in silver and backup"
        left = ", ".join(f"{b.layer}/{b.source}/{b.table}" for b in behind)
        return f"waiting for silver and backup, {len(late)} of {quantity(len(self._tables), 'table')} to go: {left}"


@dataclass(frozen=True)
class _LinkCounts:
    """What the checks said; `uncounted`: the checks of ledgers that have nothing to judge yet."""

    outcomes: Outcomes
    verdicts: list[CheckVerdict]
    uncounted: set[dg.AssetCheckKey]


def _count_links(console: Console, platform: Platform, sources: Sequence[BaseSource]) -> _LinkCounts:
    # Run every check but those of ledgers before their first count: they would warn until their schedule's next run.
    from cdc_assets.definitions import defs

    uncounted = {key for source in sources for key in keys_without_ledger(platform.lake, source)}
    keys = defs.resolve_asset_graph().asset_check_keys - uncounted
    checks = {(tuple(key.asset_key.path), key.name) for key in keys}
    outcomes = run_job(VOLUMETRY_JOB, console=console, must_succeed=False, checks=checks)
    return _LinkCounts(outcomes, verdicts_of(outcomes, checks), uncounted)


def _print_links(
    tables: Console,
    platform: Platform,
    sources: Sequence[BaseSource],
    reached: dict[tuple[str, str], float],
    counted: _LinkCounts,
) -> bool:
    passed = True
    for source in sources:
        own = [v for v in counted.verdicts if v.asset == asset_key("connector", source)]
        lines = [
            line_of(
                source,
                table,
                counted.outcomes,
                counted.verdicts,
                lag_seconds=reached.get((source.name, table_name(table))),
                silver_rows=silver_rows(silver_path(platform.lake, source, table)),
            )
            for table in source.tables
        ]
        print_table(tables, source, lines, own)
        passed = passed and not is_red([*own, *(verdict_of_line for line in lines for verdict_of_line in line.verdicts)])
    if counted.uncounted:
        later = quantity(len({key.asset_key for key in counted.uncounted}), "ledger")
        tables.print(
            f"not counted yet: {later}; their schedules do it, ./cdc ledger SOURCE/TABLE --count at once", highlight=False
        )
    return passed


Stands = Callable[[Callable[[StackState], None]], None]


def run(stands: Stands) -> None:
    """Carry everything to silver and backup, print the counts and the URLs.

    Args:
        stands: waits for the components that still start, and shows their state to the function it is given.

    Raises:
        typer.Exit: 1 when a check failed; its finding is printed.
    """
    # What its runs write below CDC_HOME: Dagster's logs of them among it.
    os.umask(0o077)
    # dagster.yaml refers to the password of Dagster's own database by this variable.
    os.environ.setdefault("CDC_DAGSTER_DB_PASSWORD", Home(settings.home()).private("dagster_db_password"))
    examples = {"world", "bank"} & {source.name for source in load_sources(settings.sources_folder())}
    # The counts are data: to stdout, and as wide as they are where no terminal sets a width.
    tables = Console(width=None if sys.stdout.isatty() else 120)
    passed = run_main_job(
        console, status=status, tables=tables, burst=lambda: burst(examples), stands=lambda say: stands(_progress_report(say))
    )
    url = settings.address("CDC_DAGSTER_URL")
    # The webserver of the stack asks for its token, once a browser.
    token = settings.key(url)
    # Of a job of CI, and of a file, others read what is printed.
    carried = f"/?token={token}" if console.is_terminal else f"/?token=…, which is in {Home(settings.home()).private_file(TOKEN)}"
    console.print(f"Dagster   {url}" + (carried if token else ""), soft_wrap=True, markup=False)
    console.print(f"lake      {settings.lake()}")
    console.print("more      ./cdc status, ./cdc traffic --rate 50 --seconds 60, ./cdc down")
    if not passed:
        console.print("[red]a volumetry check failed; everything is left running: ./cdc status[/red]")
        raise typer.Exit(1)


def _progress_report(say: Callable[[str], None]) -> Callable[[StackState], None]:
    def report(state: StackState) -> None:
        if missing := [c.name for c in state.components if c.health != HEALTHY]:
            say(f"waiting for {', '.join(missing)}")

    return report
