"""`cdc backup expire`: removes epochs that ended longer ago than the backup keeps, or says what would go."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc_assets import settings
from cdc_assets.cli.chosen_sources import chosen_sources, complete_source
from cdc_assets.cli.exit_codes import report_errors
from cdc_assets.cli.output_formats import Format, Output, print_rows
from cdc_assets.errors import NothingToRunError
from cdc_assets.registry.retention import backup_keep

if TYPE_CHECKING:
    from cdc_assets.backup.expire_source import ExpiredTable

_SHOWN = ("source", "table", "begins", "earliest", "objects", "bytes", "held")


def expire(
    sources: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SOURCE]…", help="All that declare backup.keep without.", autocompletion=complete_source),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would go, and change nothing.")] = False,
    output: Output = Format.text,
) -> None:
    """Remove what is older than backup.keep: epochs of tables that were read whole again since.

    Dagster does it by itself, with the maintenance of the source. `held` says why no more goes. Killed,
    the same command goes on. Exit 1 when a table could not be looked at, or not all of it was removed.
    """
    from cdc_assets.backup.expire_source import expire_backups
    from cdc_assets.resources.platform import Platform

    settings.export_stack_environment()
    with report_errors():
        chosen = [each for each in chosen_sources(sources or ()) if any(backup_keep(each, table) for table in each.tables)]
        if not chosen:
            raise NothingToRunError("no table of these sources may lose any of its backup: declare backup: {keep: 90d} first")
        done = [(source.name, each) for source in chosen for each in expire_backups(Platform(), source, dry_run=dry_run)]
    print_rows([_row(name, each) for name, each in done], output, narrow=_SHOWN)
    failed = [each for _, each in done if each.failed]
    for each in failed:
        print(f"{each.found.table}: {each.found.held}", file=sys.stderr)
    if failed:
        raise typer.Exit(1)


def _row(source: str, each: ExpiredTable) -> dict[str, Any]:
    found = each.found
    return {
        "source": source,
        "table": found.table,
        "begins": found.base.epoch if found.base else 0,
        "earliest": found.base.earliest if found.base else None,
        "objects": len(found.keys),
        "bytes": found.bytes,
        "held": found.held,
    }
