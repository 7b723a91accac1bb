"""`cdc preflight`: what must hold at a source, and the statement that mends what does not."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_assets.cli.chosen_sources import chosen_sources, complete_source
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document
from cdc_assets.quantity import quantity

if TYPE_CHECKING:
    from cdc_assets.preflight.finding import Report

Chosen = Annotated[list[str] | None, typer.Argument(help="Sources; default all.", autocompletion=complete_source)]


def preflight(
    sources: Chosen = None,
    fix: Annotated[bool, typer.Option("--fix", help="Run the statements that are safe, then look again.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --fix: print the statements, run none.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show what holds, too.")] = False,
    output: Output = Format.text,
) -> None:
    """Check source databases, a lake in an object store, and a Spark of yours, before and during capture.

    Exit 1 when something needed is lacking.
    """
    from cdc_assets import preflight as looking
    from cdc_assets.preflight.lake_store import inspect_lake
    from cdc_assets.preflight.spark_server import inspect_spark
    from cdc_assets.resources.platform import Platform

    platform, reports = Platform(), []
    for source in chosen_sources(sources or ()):
        captured = source.captured
        if captured is None:
            if sources:
                print(f"{source.name}: its topics are filled by others, there is no database to look at", file=sys.stderr)
            continue
        report = looking.preflight(platform, captured)
        if fix and not dry_run:
            for finding, outcome in looking.fix(platform, captured, report):
                print(f"{source.name}: {finding.mend}: {outcome}", file=sys.stderr)
            report = looking.preflight(platform, captured)
        reports.append(report)
        if not is_data(output):
            _print(report, verbose=verbose, safe_alone=fix and dry_run)
    for of_platform in () if sources else filter(None, (inspect_lake(platform.lake), inspect_spark(platform))):
        reports.append(of_platform)
        if not is_data(output):
            _print(of_platform, verbose=verbose, safe_alone=fix and dry_run)
    if is_data(output):
        print_document([report.to_json() for report in reports], output)
    if any(report.failures for report in reports):
        raise typer.Exit(1)


def _print(report: Report, *, verbose: bool, safe_alone: bool) -> None:
    if report.experimental:
        print(f"{report.source}: {report.experimental}")
    shown = [f for f in report.findings if (verbose or f.level != "ok") and (f.safe or not safe_alone)]
    for found in shown:
        print(f"{report.source}: {found.level}: {found.check}: {found.subject} {found.message}")
        if found.level != "ok" and found.mend:
            print(f"    {found.mend}" + (" (--fix runs it)" if found.safe else ""))
    held = quantity(sum(f.level == "ok" for f in report.findings), "rule")
    counted = f"{quantity(len(report.warnings), 'warning')}, {quantity(len(report.failures), 'failure')}"
    print(f"{report.source}: {held} kept{'' if verbose else ' (-v lists them)'}, {counted}")
