"""`cdc stream` and `cdc wait`: carry bronze and silver in a loop, or wait until the lake holds what the sources hold now.

Streaming goes on until it is interrupted or all is caught up. Waiting ends when everything that was committed before the call is
in silver and the histories, or says what stands in the way.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc_assets.capture.log_position import CaughtUpTimeoutError, LogPosition
from cdc_assets.chain.fold_specs import refusals_now
from cdc_assets.chain.quarantine import open_counts
from cdc_assets.cli.declared_sources import EVERY_SOURCE, Sources, dagster_news
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document
from cdc_assets.cli.progress import console, status
from cdc_assets.cli.verb_frame import verb
from cdc_assets.clients.dagster_answers import DagsterAnswers
from cdc_assets.clients.platform import Platform
from cdc_assets.proof.caught_up import Awaited, Behind, complete_versions, wait_caught_up, wait_reasons
from cdc_assets.registry import settings
from cdc_assets.registry.errors import CdcAssetsError
from cdc_assets.registry.source_declaration import BaseSource
from spark.errors import quantity

if TYPE_CHECKING:
    from cdc_assets.chain.continuous_loop import StreamFigures


@verb(failure=2)
def stream(
    platform: Platform,
    sources: Sources = EVERY_SOURCE,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="End as soon as silver holds what the lake's topics hold.")
    ] = False,
    every: Annotated[float, typer.Option(min=0.5, help="Seconds between two lines of figures.")] = 5.0,
    output: Output = Format.text,
) -> None:
    """Carry bronze and silver of the sources in a loop, until Ctrl-C. What is under way then is finished first.

    The commits are those of the assets. Sensors, runs of Dagster and other streams may work the same tables meanwhile. A table
    that fails rests, and the others go on. Exit 1 names tables that were failing for good at the end. -o json prints each line of
    figures as a JSON object.
    """
    from cdc_assets.chain.continuous_loop import Streams, StreamVoice

    printer = _Printer(is_data(output))
    with _until_interrupted() as stop:
        voice = StreamVoice(printer.say, printer.figures, every)
        streams = Streams(platform, list(sources), voice, until_caught_up=until_caught_up)
        last = streams.run(stop, settings.sources_folder())
    if lasting := list(_lasting(last)):
        print(f"cdc: failing for good: {'; '.join(lasting)}", file=sys.stderr)
        raise typer.Exit(1)


@contextmanager
def _until_interrupted() -> Iterator[threading.Event]:
    """Set by the first Ctrl-C or SIGTERM; the second one is no longer waited for."""
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, _: Any) -> None:
        stop.set()
        for signal_number, handler in before.items():
            signal.signal(signal_number, handler)

    for number in before:
        signal.signal(number, note)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _lasting(last: Mapping[str, StreamFigures]) -> Iterator[str]:
    for source, figures in last.items():
        for (layer, table), failing in figures.failing.items():
            if failing.is_lasting:
                yield f"{'/'.join(filter(None, (layer, source, table)))}: {failing.reason}"


class _Printer:
    """Lines of several threads, one at a time: figures to standard output, the rest to standard error."""

    def __init__(self, as_json: bool) -> None:
        self._as_json, self._lock = as_json, threading.Lock()

    def say(self, source: str, text: str) -> None:
        """A line for people."""
        with self._lock:
            print(f"{source}: {text}", file=sys.stderr, flush=True)

    def figures(self, source: str, figures: StreamFigures) -> None:
        """What a source's loop has done since its last line."""
        line = json.dumps(_to_json(source, figures)) if self._as_json else f"{source}: {_in_words(figures)}"
        with self._lock:
            print(line, flush=True)


def _in_words(figures: StreamFigures) -> str:
    lag = figures.lag
    age = "" if lag.seconds is None or not lag.records else f", the oldest {lag.seconds:.1f} s old"
    behind = "caught up" if not lag.records and figures.tables else f"{quantity(lag.records, 'record')} behind{age}"
    failing = f", failing: {', '.join('/'.join(table_path) for table_path in figures.failing)}" if figures.failing else ""
    return f"{figures.records_per_second:,.0f} records/s, {behind}{failing}"


def _to_json(source: str, figures: StreamFigures) -> dict[str, Any]:
    return {
        "time": round(time.time(), 3),
        "source": source,
        "seconds": round(figures.seconds, 3),
        "records_appended": figures.appended,
        "records_folded": figures.folded,
        "records_per_second": round(figures.records_per_second, 1),
        "lag_records": figures.lag.records,
        "lag_seconds": None if figures.lag.seconds is None else round(figures.lag.seconds, 3),
        "tables": {short: lag.records for short, lag in figures.tables.items()},
        "failing": {"/".join(filter(None, table_path)): failure.reason for table_path, failure in figures.failing.items()},
    }


_SHOWN = 8
# A sensor looks every 5 s, and a run takes 10 to 20 s.
_FIRST_REASON_SECONDS, _REASON_SECONDS = 15.0, 20.0


@verb()
def wait(
    platform: Platform,
    sources: Sources = EVERY_SOURCE,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds.")] = 300.0,
    backup: Annotated[bool, typer.Option("--backup", help="Wait for the backup as well.")] = False,
    output: Output = Format.text,
) -> None:
    """Wait for the lake to hold what the sources hold now. Exit 1 when it takes longer than --timeout.

    It names the place of the source's log up to which silver is complete. A place that has no name is an error. A table that
    no later run can fold is told at once. The command waits for the others, and ends with 1.

    The command waits for histories (`history: scd2`) as well. With -o json it names a version of each silver table and
    history that is complete up to the source's position. Readers of several tables read these versions. Records in quarantine
    are named: silver does not have them.
    """
    if news := dagster_news():
        # What Dagster does not know is never carried: said now, and not when the time is over.
        print(f"cdc: {news}", file=sys.stderr, flush=True)
    started, reasons = time.monotonic(), _Reasons()
    with status(f"waiting for {', '.join(source.name for source in sources)}") as say:

        def progress(behind: tuple[Behind, ...]) -> None:
            say(f"{time.monotonic() - started:.0f} s, behind: {_some_of(behind)}" if behind else "caught up")
            reasons.look(behind)

        awaited = Awaited(backup, named=True, refusals=refusals_now)
        try:
            reached = wait_caught_up(platform, sources, timeout=timeout, awaited=awaited, progress=progress, say=reasons.tell)
        except CaughtUpTimeoutError as error:
            reasons.look(reasons.behind, now=True)
            print(f"cdc: {error}", file=sys.stderr)
            raise typer.Exit(1) from None
    seconds = round(time.monotonic() - started, 2)
    if is_data(output):
        answers = {source.name: _complete_document(platform.lake, source, reached[source.name]) for source in sources}
        print_document({"seconds": seconds, "sources": answers}, output)
        return
    for source in sources:
        _print_complete(source, reached[source.name].lsn, open_counts(platform.lake, source))
    print(f"caught up after {seconds} s")


def _complete_document(lake: str, source: BaseSource, position: LogPosition) -> dict[str, Any]:
    versions = complete_versions(lake, source, position).to_json()
    return {**versions, "quarantined": open_counts(lake, source)}


def _print_complete(source: BaseSource, place: str, set_aside: Mapping[str, int]) -> None:
    layers = "silver and its histories" if any(table.history == "scd2" for table in source.tables) else "silver"
    but = ", but for what is in quarantine" if set_aside else ""
    print(f"{source.name}: everything committed before {place} is in {layers}{but}")
    for table, records in set_aside.items():
        print(f"{source.name}/{table}: {quantity(records, 'record')} in quarantine: cdc quarantine list {source.name}/{table}")


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
