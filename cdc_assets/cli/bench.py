"""`cdc bench`: how fast bronze and silver are here, beside the figures that they are to reach."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cdc_assets.cli.exit_codes import report_errors
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document, print_rows
from cdc_assets.cli.progress import console

_NARROW = ("scenario", "system", "median_s", "min_s", "max_s", "unit", "cpu_s", "target", "met")
_Names = Annotated[list[str] | None, typer.Option("--scenario", help="Only this one; may be given more than once.")]


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
        bool, typer.Option("--profile", help="With -o json or yaml: calls to Spark and its collectors, by step.")
    ] = False,
    output: Output = Format.text,
) -> None:
    """Measure bronze and silver with generated events, on a stack of its own that is removed afterwards.

    `median_s`, `min_s` and `max_s` are in `unit`: seconds, or cores and gigabytes of a stack at rest.
    `cpu_s` are CPU seconds of the Spark server and of this command. Neighbours hardly change them. `target` is at most.
    Every table is compared with what was sent, the peers' too. They write one table, this product bronze and silver.
    With `--peers` a figure tells that this product is not slower than Iceberg, run by run.
    Exit 1: a figure misses its target by more than 15 %; 2: something was not measured.
    """
    with report_errors():
        from cdc_assets.bench.measurement import Size
        from cdc_assets.bench.whole_run import Wanted, run_scenarios

        found = run_scenarios(Wanted(scenario or (), here, peers, Size(rows, profile, quick)), _say)
        _print([figure.row() for figure in found.figures], output)
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
