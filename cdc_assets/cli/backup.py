"""`cdc backup`: what is in the backups: verify, object by object; registry, the files of sources; expire, what is too old."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc_assets import names, settings
from cdc_assets.cli.backup_expire import expire
from cdc_assets.cli.backup_registry import registry
from cdc_assets.cli.chosen_sources import chosen_sources, complete_source
from cdc_assets.cli.exit_codes import report_errors
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document, print_rows
from cdc_assets.errors import NothingToRunError
from cdc_assets.quantity import quantity
from cdc_assets.registry.models import BaseSource

if TYPE_CHECKING:
    from cdc_assets.backup import VerifyReport

app = typer.Typer(no_args_is_help=True, help=__doc__)
app.command()(registry)
app.command()(expire)
_SHOWN = ("source", "table", "manifests", "objects", "records", "behind", "damaged", "signed")


@dataclass(frozen=True)
class _Found:
    """A table's report, or that of what is kept of the source as a whole."""

    source: str
    table: str
    damage: tuple[str, ...]
    counts: dict[str, int] = field(default_factory=dict)
    signed: str = ""

    def to_json(self) -> dict[str, Any]:
        """For people and programs."""
        empty = dict.fromkeys(("manifests", "objects", "records", "behind"))
        counts = {**empty, **self.counts, "damaged": len(self.damage)}
        return {"source": self.source, "table": self.table, **counts, "signed": self.signed, "damage": list(self.damage)}


@app.command()
def verify(
    sources: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SOURCE]…", help="All that have a backup without.", autocompletion=complete_source),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Compare sizes and listed digests only, and read what differs.")] = False,
    output: Output = Format.text,
) -> None:
    """Read every object of the backup, and name each that is changed, cut short, missing or foreign.

    Exit 1 when there is one. Nothing is changed. No service is asked but the store. Where the lake has
    the table, its rows are counted as well. Where the secret `backup_key` is there, a backup signs what
    it writes, and a head without its signature, or with another one, is damage.
    """
    settings.export_stack_environment()
    with report_errors():
        chosen = [source for source in chosen_sources(sources or ()) if sources or source.backup is not None]
        if not chosen:
            raise NothingToRunError("no source declares a backup: there is nothing to verify (backup: in its file)")
        found = [each for source in chosen for each in _verify(source, deep=not quick)]
    rows = [each.to_json() for each in found]
    if is_data(output):
        print_document(rows, output)
    else:
        print_rows(rows, output, narrow=_SHOWN)
    damage = [sentence for each in found for sentence in each.damage]
    for sentence in damage:
        print(f"damaged: {sentence}", file=sys.stderr)
    if damage:
        print(f"{quantity(len(damage), 'object')} to look at: cdc restore SOURCE --dry-run tells what is lost", file=sys.stderr)
        raise typer.Exit(1)


def _verify(source: BaseSource, *, deep: bool) -> Iterator[_Found]:
    from cdc_assets.backup import verify_backup
    from cdc_assets.backup.foreign import source_in_store
    from cdc_assets.backup.kept_cuts import verify_cuts
    from cdc_assets.backup.newest import newest_of_table
    from cdc_assets.backup.platform import verify_state
    from cdc_assets.backup.platform.document import newest_entry
    from cdc_assets.resources.delta_log import bronze_committed
    from cdc_assets.resources.platform import Platform

    if source.backup is None:
        raise NothingToRunError(f"source {source.name} declares no backup: there is nothing to verify (backup: in its file)")
    store = Platform().store(source.backup.store)
    bronze = names.bronze_path(settings.lake(), source)
    committed = bronze_committed(bronze)
    declared = [names.table_name(table) for table in source.tables]
    stored = source_in_store(store, source.name, declared)
    for table in (*declared, *stored.others):
        there = committed is not None and committed.of_table(table)
        report = verify_backup(store, source=source.name, table=table, bronze_path=bronze if there else None, deep=deep)
        yield _Found(
            source.name, table, report.differences, _counts(report), newest_of_table(source.name, table).authorship(store)
        )
    state = (*verify_state(store, source.name, deep=deep), *verify_cuts(store, source.name))
    foreign = (f"{key} is of no table, and not ours" for key in stored.foreign)
    yield _Found(source.name, "(the source)", (*state, *foreign), signed=newest_entry(source.name).authorship(store))


def _counts(report: VerifyReport) -> dict[str, int]:
    return {each: getattr(report, each) for each in ("manifests", "objects", "records", "behind")}
