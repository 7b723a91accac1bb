"""`cdc bench`: how fast bronze and silver are here, beside the figures that they are to reach."""

from __future__ import annotations

import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from cdc_assets.cli.exit_codes import report_errors
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document, print_rows
from cdc_assets.cli.progress import console
from cdc_assets.cli.repository import repository_with

if TYPE_CHECKING:
    from benchmarks.bench.whole_run import WholeRun

_NARROW = ("scenario", "system", "median_s", "min_s", "max_s", "unit", "cpu_s", "target", "met")
_Names = Annotated[list[str] | None, typer.Option("--scenario", help="Only this one; may be given more than once.")]

_Page = Annotated[
    Path | None,
    typer.Option("--markdown", metavar="FILE", help="Write the run as a page as well, and its plot beside it as .svg."),
]
_Record = Annotated[
    Path | None,
    typer.Option("--record", metavar="FILE", help="Keep each scenario's figures there, and measure none that it holds."),
]


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Only the scenarios of ten minutes.")] = False,
    here: Annotated[bool, typer.Option("--here", help="On the stack that runs in CDC_HOME, beside its own work.")] = False,
    scenario: _Names = None,
    rows: Annotated[
        int | None, typer.Option(min=1_000, help="A trial: so many rows instead of 500000, one run that counts, no targets.")
    ] = None,
    peers: Annotated[
        bool, typer.Option("--peers", help="Iceberg, foreachBatch and delta-rs as well, each run on the same events.")
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="With -o json, yaml or --markdown: calls to Spark and its CPU seconds, by step.")
    ] = False,
    markdown: _Page = None,
    record: _Record = None,
    output: Output = Format.text,
) -> None:
    """Measure bronze and silver with generated events, on a stack of its own that is removed afterwards.

    `median_s`, `min_s` and `max_s` are in `unit`: seconds, or cores and gigabytes of a stack at rest.
    `cpu_s` are CPU seconds of the Spark server and of this command. Neighbours hardly change them. `target` is at most.
    Every table is compared with what was sent, the peers' too. They write one table, this product bronze and silver.
    With `--peers` a figure tells that this product is not slower than Iceberg, run by run.
    Exit 1: a figure misses its target by more than 15 %; 2: something was not measured.
    """
    repository_with("benchmarks", "the benchmarks", "bench")
    signal.signal(signal.SIGTERM, end_in_order)
    with report_errors():
        from benchmarks.bench.measurement import Size
        from benchmarks.bench.record import BenchRecord
        from benchmarks.bench.report_page import began, write_page
        from benchmarks.bench.whole_run import Wanted, run_scenarios

        _assert_folders({"--markdown": markdown, "--record": record})
        size = Size(rows, profile, quick)
        kept = BenchRecord(record, f"{size}, peers={peers}", began())
        found = run_scenarios(Wanted(scenario or (), here, peers, size, kept), _say)
        _print([figure.row() for figure in found.figures], output)
        if markdown:
            write_page(markdown, found, shlex.join(["./cdc", *sys.argv[1:]]))
    _say_shortfalls(found)


def end_in_order(number: int, frame: object) -> NoReturn:
    """What a signal that kills would leave running, the stack, is taken down on the way out."""
    sys.exit(128 + number)


def _assert_folders(files: dict[str, Path | None]) -> None:
    """Each file's folder is there before anything is measured."""
    for option, file in files.items():
        if file and not file.parent.is_dir():
            raise typer.BadParameter(f"{option} {file}: the folder {file.parent} does not exist")


def _say_shortfalls(found: WholeRun) -> None:
    """What was not reached, and what was not measured, become the exit code."""
    missed = [figure for figure in found.figures if figure.is_missed]
    for figure in missed:
        _say(f"missed by more than 15 %: {figure.scenario}: {figure.median:.3g} {figure.unit}, to reach: {figure.target:.3g}")
    for name, why in found.failures.items():
        _say(f"not measured: {name}: {why}")
    if missed or found.failures:
        raise typer.Exit(2 if found.failures else 1)


def _print(rows: list[dict[str, Any]], output: Format) -> None:
    if is_data(output):
        print_document(rows, output)
    else:
        print_rows(rows, output, narrow=_NARROW)


def _say(text: str) -> None:
    console.print(text, markup=False, soft_wrap=True)
