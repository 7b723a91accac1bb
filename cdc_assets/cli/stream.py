"""`cdc stream`: bronze and silver of sources in a loop, until it is interrupted or all is caught up."""

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

from cdc_assets import settings
from cdc_assets.cli.chosen_sources import chosen_sources, complete_source
from cdc_assets.cli.exit_codes import report_errors
from cdc_assets.cli.output_formats import Format, Output, is_data
from cdc_assets.quantity import quantity

if TYPE_CHECKING:
    from cdc_assets.continuous.keep_carrying import StreamFigures


def stream(
    sources: Annotated[
        list[str] | None, typer.Argument(help="Sources to carry; default all.", autocompletion=complete_source)
    ] = None,
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
    with report_errors():
        from cdc_assets.continuous.streams import Streams, StreamVoice
        from cdc_assets.resources.platform import Platform

        chosen, printer = chosen_sources(sources or ()), _Printer(is_data(output))
        with _until_interrupted() as stop:
            voice = StreamVoice(printer.say, printer.figures, every)
            streams = Streams(Platform(), chosen, voice, until_caught_up=until_caught_up)
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
        for each, handler in before.items():
            signal.signal(each, handler)

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
    failing = f", failing: {', '.join('/'.join(place) for place in figures.failing)}" if figures.failing else ""
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
        "failing": {"/".join(filter(None, place)): each.reason for place, each in figures.failing.items()},
    }
