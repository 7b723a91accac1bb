"""`cdc bench`: how fast bronze and silver are here, beside the figures that they are to reach."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from cdc_assets.cli.exit_codes import report_errors
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document, print_rows
from cdc_assets.cli.progress import console

_NARROW = ("scenario", "system", "median_s", "min_s", "max_s", "cpu_s", "target", "met")
_Names = Annotated[list[str] | None, typer.Option("--scenario", help="Only this one; may be given more than once.")]


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Only the scenarios of ten minutes.")] = False,
    here: Annotated[bool, typer.Option("--here", help="On the stack that runs in CDC_HOME, beside its own work.")] = False,
    scenario: _Names = None,
    rows: Annotated[
        int | None, typer.Option(min=1_000, help="A trial: so many rows instead of 500000, one run that counts, no targets.")
    ] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="With -o json or yaml: calls to Spark and its collectors, by step.")
    ] = False,
    output: Output = Format.text,
) -> None:
    """Measure bronze and silver with generated events, on a stack of its own that is removed afterwards.

    `median_s`, `min_s` and `max_s` are seconds, and for what the stack takes at rest cores and gigabytes: `unit` says so.
    `cpu_s` are CPU seconds of the Spark server and of this command; neighbours hardly change them. `target` is at most.
    Every table is compared with what was sent. Exit 1: a figure misses its target by more than 15 %; 2: nothing was measured.
    """
    with report_errors(), ExitStack() as ending:
        from cdc_assets.bench.measurement import Asked, Measurement
        from cdc_assets.bench.scenarios import SCENARIOS
        from cdc_assets.bench.stack import running_stack, scratch_stack

        if unknown := [name for name in scenario or () if name not in SCENARIOS]:
            raise typer.BadParameter(f"{', '.join(unknown)}: the scenarios are {', '.join(SCENARIOS)}")
        chosen = {n: s for n, s in SCENARIOS.items() if (n in scenario if scenario else s.quick or not quick)}

        def say(text: str) -> None:
            console.print(text, markup=False, soft_wrap=True)

        stack = running_stack() if here else ending.enter_context(scratch_stack(say))
        folder = Path(tempfile.mkdtemp(prefix="bench-", dir=stack.home.root))
        measured = Measurement(stack, Asked(rows, profile), folder, say)
        ending.callback(measured.close)
        figures = [figure for each in chosen.values() for figure in each.run(measured)]
        found = [figure.row() for figure in figures]
        if is_data(output):
            print_document(found, output)
        else:
            print_rows(found, output, narrow=_NARROW)
        missed = [f"{f.scenario}: {f.median:.3g} {f.unit}, to reach: {f.target:.3g}" for f in figures if f.is_missed]
    for text in missed:
        say(f"missed by more than 15 %: {text}")
    if missed:
        raise typer.Exit(1)
