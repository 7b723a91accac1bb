"""`cdc cut`: consistent cuts of all tables of a source, complete up to one transaction: list, show, make."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc_assets import settings
from cdc_assets.cli.chosen_sources import chosen_sources, complete_source
from cdc_assets.cli.exit_codes import report_errors
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document, print_rows

if TYPE_CHECKING:
    from cdc_assets.cuts.cut_manifest import CutManifest

app = typer.Typer(no_args_is_help=True, help=__doc__)
_LISTED = ("cut", "made_at", "position", "tables", "rows")
_SHOWN = ("layer", "table", "version", "rows", "quarantined")
_PLANNED = ("table", "version", "rows", "waiting")


@app.command("list")
def list_(
    sources: Annotated[
        list[str] | None, typer.Argument(metavar="[SOURCE]…", help="Default all.", autocompletion=complete_source)
    ] = None,
    output: Output = Format.text,
) -> None:
    """List the kept cuts, newest first; no service is asked."""
    from cdc_assets.cuts.cut_manifest import read_cuts

    settings.export_stack_environment()
    with report_errors():
        found = [cut for source in chosen_sources(sources or ()) for cut in read_cuts(settings.lake(), source)]
    print_rows([_row(cut) for cut in found], output, narrow=_LISTED)


@app.command()
def show(
    cut: Annotated[str, typer.Argument(help="Its name; a source's name: its newest.", autocompletion=complete_source)],
    output: Output = Format.text,
) -> None:
    """Show which version of each table a cut names; no service is asked."""
    from cdc_assets.cuts.cut_manifest import find_cut

    settings.export_stack_environment()
    with report_errors():
        found = find_cut(settings.lake(), chosen_sources(), cut)
    _print_cut(found, output)


@app.command()
def make(
    source: Annotated[str, typer.Argument(help="Its name.", autocompletion=complete_source)],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would begin with, and do nothing.")] = False,
    output: Output = Format.text,
) -> None:
    """Make a cut of this moment, and keep it. Bronze and silver are brought up to it."""
    from cdc_assets.cuts.make_cut import make_cut, plan_cut
    from cdc_assets.resources.platform import Platform

    settings.export_stack_environment()
    [chosen] = chosen_sources([source])
    if dry_run:
        with report_errors():
            planned = list(plan_cut(Platform(), chosen))
        print_rows(planned, output, narrow=_PLANNED)
        return
    with report_errors():
        made = make_cut(Platform(), chosen, lambda text: print(text, file=sys.stderr, flush=True))
    for name in made.forgotten:
        print(f"{name} is kept no longer", file=sys.stderr)
    _print_cut(made.manifest, output)


def _print_cut(cut: CutManifest, output: Format) -> None:
    if is_data(output):
        print_document(cut.to_json(), output)
        return
    print(f"{cut.cut}: all that {cut.source} had committed up to {cut.position}, and nothing else")
    print_rows([{**row, "topics": None} for row in cut.to_rows()], output, narrow=_SHOWN)


def _row(cut: CutManifest) -> dict[str, Any]:
    tables = cut.tables.values()
    rows = sum(entry.rows for entry in tables)
    return {"cut": cut.cut, "made_at": cut.made_at, "position": cut.position, "tables": len(tables), "rows": rows}
