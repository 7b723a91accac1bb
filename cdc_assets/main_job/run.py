"""The main job, step by step: transport, a burst of live changes, caught up, counted.

The sensors that run in Dagster carry every record; what runs here only declares and counts. `lag` is the time from the
end of the burst until silver and backup held all of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console

from cdc_assets import settings
from cdc_assets.defs.checks.hop_balance import keys_without_ledger
from cdc_assets.defs.jobs import TRANSPORT_JOB, VOLUMETRY_JOB
from cdc_assets.errors import TableFailuresError
from cdc_assets.main_job.dagster_runs import Outcomes, RunFailedError, all_checks, run_job
from cdc_assets.main_job.failed_runs import FailedRuns
from cdc_assets.main_job.final_table import line_of, print_table, verdicts_of
from cdc_assets.main_job.verdict_lines import is_red
from cdc_assets.names import asset_key, op_name, silver_path, table_name
from cdc_assets.quantity import quantity
from cdc_assets.registry.models import BaseSource
from cdc_assets.registry_files.loader import load_sources
from cdc_assets.resources.delta_log import silver_rows
from cdc_assets.resources.platform import Platform
from cdc_assets.tables.fold_refusals import refusals_now
from cdc_assets.volumetry.caught_up import Awaited, Behind, wait_caught_up
from cdc_assets.volumetry.check_verdicts import CheckVerdict

if TYPE_CHECKING:
    import dagster as dg

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

    Raises:
        RunFailedError: no source is carried.
    """
    try:
        run_job(TRANSPORT_JOB, console=console)
    except RunFailedError as error:
        carried = tuple(source for source in sources if op_name("connector", source) not in error.reasons)
        of_sources = {op_name(layer, source) for source in sources for layer in _LINKS}
        if not carried or not error.reasons.keys() <= of_sources:
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
    except TableFailuresError as error:
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
    """Run every check but those of ledgers before their first count: they would warn until their schedule's next run."""
    uncounted = {key for source in sources for key in keys_without_ledger(platform.lake, source)}
    asked = set(all_checks()) - {(tuple(key.asset_key.path), key.name) for key in uncounted}
    outcomes = run_job(VOLUMETRY_JOB, console=console, must_succeed=False, checks=asked)
    return _LinkCounts(outcomes, verdicts_of(outcomes, asked), uncounted)


def _print_links(
    tables: Console,
    platform: Platform,
    sources: Sequence[BaseSource],
    reached: dict[tuple[str, str], float],
    counted: _LinkCounts,
) -> bool:
    """A table per source; True when every check passed."""
    passed = True
    for source in sources:
        own = [each for each in counted.verdicts if each.asset == asset_key("connector", source)]
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
        passed = passed and not is_red([*own, *(each for line in lines for each in line.verdicts)])
    if counted.uncounted:
        later = quantity(len({key.asset_key for key in counted.uncounted}), "ledger")
        tables.print(
            f"not counted yet: {later}; their schedules do it, ./cdc ledger SOURCE/TABLE --count at once", highlight=False
        )
    return passed
