"""`cdc drill`: the newest backup restored beside the lake and compared with silver, or what the last drill has found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cdc_assets import settings
from cdc_assets.cli.chosen_sources import chosen_sources, complete_source
from cdc_assets.cli.exit_codes import report_errors
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document, print_rows
from cdc_assets.cli.progress import console
from cdc_assets.errors import NothingToRunError
from cdc_assets.quantity import quantity
from cdc_assets.registry.models import BaseSource

if TYPE_CHECKING:
    from cdc_assets.restore.drill_record import Drill

_PLANNED = ("source", "table", "version", "records", "objects", "bytes", "problem")
_SHOWN = ("source", "table", "version", "rows", "differing", "problem")


def drill(
    chosen: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SOURCE]…", help="All that have a backup without.", autocompletion=complete_source),
    ] = None,
    last: Annotated[bool, typer.Option("--last", help="Print what the last drill has found, and do nothing.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the restored tables where they are.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be restored and compared; do nothing.")] = False,
    output: Output = Format.text,
) -> None:
    """Restore the newest backup into a scratch lake and compare it with silver as it was there.

    Exit 1 when a row differs, or a table cannot be restored. The lake itself is only read.
    """
    settings.export_stack_environment()
    if dry_run and (last or keep):
        raise typer.BadParameter("--dry-run does nothing: give it without --last and --keep")
    with report_errors():
        sources = [source for source in chosen_sources(chosen or ()) if chosen or source.backup is not None]
        if not sources:
            raise NothingToRunError("no source declares a backup: there is nothing to drill (backup: in its file)")
        if dry_run:
            _print_plans(sources, output)
            return
        found = [each for source in sources if (each := _last(source) if last else _drill(source, keep))]
    if is_data(output):
        print_document([each.to_json() for each in found], output)
    else:
        rows = [{"source": each.source, **table} for each in found for table in each.to_json()["tables"]]
        print_rows(rows, output, narrow=_SHOWN)
        for each in found:
            console.print(
                f"{each.source}: {each.moment}, {each.seconds / 60:.1f} minutes, {quantity(each.bytes, 'byte')} of backup"
            )
    if not all(each.is_equal for each in found):
        raise typer.Exit(1)


def _print_plans(sources: list[BaseSource], output: Format) -> None:
    from cdc_assets.resources.platform import Platform
    from cdc_assets.restore.drill_source import plan_drill

    plans = [plan.to_json(source.name) for source in sources for plan in plan_drill(Platform(), source)]
    print_rows(plans, output, narrow=_PLANNED)
    if any(plan["problem"] for plan in plans):
        raise typer.Exit(1)


def _last(source: BaseSource) -> Drill | None:
    """As the lake has noted it; where there is none any more, as the backup has."""
    from cdc_assets.resources.platform import Platform
    from cdc_assets.restore.drill_record import drill_of_backup, last_drill

    found = last_drill(settings.lake(), source)
    return found if found or source.backup is None else drill_of_backup(Platform().store(source.backup.store), source.name)


def _drill(source: BaseSource, keep: bool) -> Drill:
    from cdc_assets.resources.platform import Platform
    from cdc_assets.restore.drill_source import drill_source

    return drill_source(Platform(), source, console.print, keep=keep)
