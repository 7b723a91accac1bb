"""`cdc snapshot`: a captured table is read again by its running connector."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_assets.cli.chosen_sources import chosen_sources, complete_source
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document
from cdc_assets.quantity import quantity

if TYPE_CHECKING:
    from cdc_assets.onboarding.snapshot_again import Way


def snapshot(
    source: Annotated[str, typer.Argument(help="The source's name in the registry.", autocompletion=complete_source)],
    table: Annotated[str, typer.Argument(help="The table, as in the database or in the lake.")],
    blocking: Annotated[
        bool, typer.Option("--blocking", help="In one piece, while all tables of the source stand still.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan, and do nothing.")] = False,
    output: Output = Format.text,
) -> None:
    """Read a table again through its running connector, and wait until its rows are in the topic.

    Use --blocking if rows of an earlier table must go. After a kill, give the same command again.
    """
    from cdc_assets.onboarding.snapshot_again import judge, read_again, steps, work_of
    from cdc_assets.resources.platform import Platform

    (declared,) = chosen_sources([source])
    try:
        name = declared.table(table).name
    except KeyError as error:
        raise typer.BadParameter(f"{error.args[0]}; a new one is taken in by: cdc onboard {source} {table}") from None
    way: Way = "blocking" if blocking else "incremental"
    work = work_of(Platform(), source, name, way, lambda text: print(text, file=sys.stderr, flush=True))
    answer = {"source": source, "table": name, "way": way, "dry_run": dry_run}
    if dry_run:
        judge(work)
        rows = [{"step": step.name, "what": step.what} for step in steps(way)]
        if is_data(output):
            print_document({**answer, "plan": rows}, output)
        else:
            print(f"{source}: {name} again, {way}")
            print("\n".join(f"{number:2} {row['step']:14} {row['what']}" for number, row in enumerate(rows, 1)))
        return
    found = read_again(work, way)
    if is_data(output):
        print_document({**answer, "steps": found}, output)
        return
    rows_read = sum(found["snapshot"]["rows_scanned"].values())
    print(f"{source}: {name} read again ({way}): {quantity(rows_read, 'row')} in {found['snapshot']['seconds']:.1f} s")
