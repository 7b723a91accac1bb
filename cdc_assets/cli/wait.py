"""`cdc wait`: blocks until everything committed in the sources before the call is in silver and the histories."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from typing import Annotated

import typer

from cdc_assets import settings
from cdc_assets.cli.chosen_sources import complete_source
from cdc_assets.cli.dagster_news import dagster_news
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document
from cdc_assets.cli.progress import console, status
from cdc_assets.errors import CaughtUpTimeoutError, CdcAssetsError
from cdc_assets.registry.models import BaseSource
from cdc_assets.registry_files.loader import load_sources
from cdc_assets.resources.dagster_answers import DagsterAnswers
from cdc_assets.tables.fold_refusals import refusals_now
from cdc_assets.volumetry.caught_up import Awaited, Behind, wait_caught_up
from cdc_assets.volumetry.complete_versions import complete_versions
from cdc_assets.volumetry.log_position import LogPosition
from cdc_assets.volumetry.wait_reasons import wait_reasons

_SHOWN = 8
# A sensor looks every 5 s, and a run takes 10 to 20 s.
_FIRST_REASON_SECONDS, _REASON_SECONDS = 15.0, 20.0


def wait(
    sources: Annotated[
        list[str] | None, typer.Argument(help="Sources to wait for; default all.", autocompletion=complete_source)
    ] = None,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds.")] = 300.0,
    backup: Annotated[bool, typer.Option("--backup", help="Wait for the backup as well.")] = False,
    output: Output = Format.text,
) -> None:
    """Wait for the lake to hold what the sources hold now. Exit 1 when it takes longer than --timeout.

    It names the place of the source's log up to which silver is complete. A place that has no name is an error. A table that
    no later run can fold is told at once. The command waits for the others, and ends with 1.

    The command waits for histories (`history: scd2`) as well. With -o json it names a version of each silver table and
    history that is complete up to the source's position. Readers of several tables read these versions.
    """
    from cdc_assets.resources.platform import Platform

    chosen = choose(load_sources(settings.sources_folder()), sources)
    _tell_news()
    platform, started, reasons = Platform(), time.monotonic(), _Reasons()
    with status(f"waiting for {', '.join(source.name for source in chosen)}") as say:

        def progress(behind: tuple[Behind, ...]) -> None:
            say(f"{time.monotonic() - started:.0f} s, behind: {_some_of(behind)}" if behind else "caught up")
            reasons.look(behind)

        awaited = Awaited(backup, named=True, refusals=refusals_now)
        try:
            reached = wait_caught_up(platform, chosen, timeout=timeout, awaited=awaited, progress=progress, say=reasons.tell)
        except CaughtUpTimeoutError as error:
            reasons.look(reasons.behind, now=True)
            print(f"cdc: {error}", file=sys.stderr)
            raise typer.Exit(1) from None
    seconds = round(time.monotonic() - started, 2)
    if is_data(output):
        _print_versions(platform.lake, chosen, reached, seconds, output)
    else:
        _print_reached(chosen, reached)
        print(f"caught up after {seconds} s")


def _tell_news() -> None:
    """What Dagster does not know is never carried: said now, and not when the time is over."""
    if news := dagster_news():
        print(f"cdc: {news}", file=sys.stderr, flush=True)


def _print_versions(
    lake: str, chosen: Iterable[BaseSource], reached: Mapping[str, LogPosition], seconds: float, output: Format
) -> None:
    versions = [complete_versions(lake, source, reached[source.name]) for source in chosen]
    print_document({"seconds": seconds, "sources": {found.source: found.to_json() for found in versions}}, output)


def _print_reached(sources: Iterable[BaseSource], reached: Mapping[str, LogPosition]) -> None:
    for source in sources:
        layers = "silver and its histories" if any(table.history == "scd2" for table in source.tables) else "silver"
        print(f"{source.name}: everything committed before {reached[source.name].lsn} is in {layers}")


def _some_of(behind: tuple[Behind, ...]) -> str:
    shown = [f"{late.layer}/{late.source}/{late.table}" for late in behind[:_SHOWN]]
    more = f" and {len(behind) - _SHOWN} more" if len(behind) > _SHOWN else ""
    return ", ".join(shown) + more


class _Reasons:
    """Tells what stands in the way, each thing once: first when a run should long have come, then now and then."""

    def __init__(self) -> None:
        self.behind: tuple[Behind, ...] = ()
        self._told: set[str] = set()
        self._next = time.monotonic() + _FIRST_REASON_SECONDS

    def look(self, behind: tuple[Behind, ...], *, now: bool = False) -> None:
        """Ask Dagster, when it is time."""
        self.behind = behind
        if not behind or (time.monotonic() < self._next and not now):
            return
        self._next = time.monotonic() + _REASON_SECONDS
        try:
            for reason in wait_reasons(DagsterAnswers(), behind):
                self.tell(reason)
        except CdcAssetsError as error:
            self.tell(f"why they are behind is not known: {error}")

    def tell(self, reason: str) -> None:
        """To people, unless it was told before."""
        if reason not in self._told:
            self._told.add(reason)
            console.print(reason, markup=False, soft_wrap=True)


def choose(sources: tuple[BaseSource, ...], wanted: list[str] | None) -> tuple[BaseSource, ...]:
    """The sources named, or all.

    Raises:
        typer.BadParameter: naming the sources that there are.
    """
    known = {source.name: source for source in sources}
    unknown = [name for name in wanted or [] if name not in known]
    if unknown:
        raise typer.BadParameter(f"no source {', '.join(unknown)}; there are: {', '.join(known)}")
    return tuple(known[name] for name in wanted) if wanted else sources
