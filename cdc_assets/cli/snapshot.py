"""`cdc snapshot`: captured tables, or some of their rows, are read again by their running connector."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc_assets.cli.chosen_sources import chosen_sources, complete_source
from cdc_assets.cli.experimental import tell_experimental
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document
from cdc_assets.quantity import quantity

if TYPE_CHECKING:
    from cdc_assets.onboarding.snapshot_again import Way
    from cdc_assets.registry.models import BaseSource

_WHERE = "Only these rows: a condition in the database's SQL, the same for each table."


def snapshot(
    source: Annotated[str, typer.Argument(help="The source's name in the registry.", autocompletion=complete_source)],
    tables: Annotated[list[str], typer.Argument(help="The tables, as in the database or in the lake.")],
    where: Annotated[str, typer.Option("--where", help=_WHERE)] = "",
    blocking: Annotated[
        bool, typer.Option("--blocking", help="In one piece, while all tables of the source stand still.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan, and do nothing.")] = False,
    output: Output = Format.text,
) -> None:
    """Read tables again through their running connector, and wait until their rows are in the topics.

    Use --blocking if rows of an earlier table must go. After a kill, give the same command again.
    """
    from cdc_assets.onboarding.snapshot_again import Reading, judge, read_again, refuse_kind, steps, work_of
    from cdc_assets.resources.platform import Platform

    (declared,) = chosen_sources([source])
    tell_experimental([declared])
    chosen = _registry_names(declared, tables)
    refuse_kind(declared)
    reading = Reading(chosen, "blocking" if blocking else "incremental", where.strip())
    work = work_of(Platform(), source, reading, lambda text: print(text, file=sys.stderr, flush=True))
    answer = {"source": source, "tables": list(chosen), "way": reading.way, "where": reading.where, "dry_run": dry_run}
    if dry_run:
        judge(work, reading.where)
        rows = [{"step": step.name, "what": step.what} for step in steps(reading)]
        if is_data(output):
            print_document({**answer, "plan": rows}, output)
        else:
            print(f"{source}: {', '.join(chosen)} again, {reading.way}")
            print("\n".join(f"{number:2} {row['step']:14} {row['what']}" for number, row in enumerate(rows, 1)))
        return
    found = read_again(work, reading)
    if is_data(output):
        print_document({**answer, "steps": found}, output)
        return
    _print_rows(source, reading.way, found["snapshot"])


def _registry_names(source: BaseSource, tables: list[str]) -> tuple[str, ...]:
    """Each once, as the registry names them."""
    try:
        return tuple(dict.fromkeys(source.table(table).name for table in tables))
    except KeyError as error:
        taken_in = f"a new one is taken in by: cdc onboard {source.name} {' '.join(tables)}"
        raise typer.BadParameter(f"{error.args[0]}; {taken_in}") from None


def _print_rows(source: str, way: Way, found: Mapping[str, Any]) -> None:
    for table, rows in found["rows_scanned"].items():
        print(f"{source}: {table} read again ({way}): {quantity(rows, 'row')} in {found['seconds']:.1f} s")
    print(f"the chain carries them like changes; cdc reconcile {source} compares silver with the source then")
