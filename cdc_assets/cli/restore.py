"""`cdc restore`: tables of a source from its backup, or what that would find."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc_assets import names, settings
from cdc_assets.cli.chosen_sources import chosen_sources, complete_source
from cdc_assets.cli.exit_codes import report_errors
from cdc_assets.cli.option_group import group_options
from cdc_assets.cli.output_formats import Format, Output, print_rows
from cdc_assets.cli.progress import console
from spark.replay.wanted_keys import WantedKeys

if TYPE_CHECKING:
    from cdc_assets.restore.restore_request import RestoredTable, RestoreRequest

_SHOWN = ("table", "outcome", "records", "objects", "bytes", "epoch", "positions")


@dataclass(frozen=True)
class RestoreOptions:
    """What is restored, how far, and where to."""

    into: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Another lake, beside the one of now; its tables are made there.")
    ] = None
    to: Annotated[
        str | None,
        typer.Option(metavar="TIME|POSITION|CUT", help="Up to a moment (2026-11-25T18:00:00Z), a _cdc_position or a kept cut."),
    ] = None
    skip_damaged: Annotated[
        bool, typer.Option("--skip-damaged", help="Restore damaged tables as well, without their damaged objects.")
    ] = False
    keys: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help='Only rows of this key: 42, or {"a": 1, "b": "x"}; may be given again. With --into.'),
    ] = None
    from_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Only rows from this key on, it included; as --keys, with --into.")
    ] = None
    to_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Only rows up to this key, it included; with or without --from-key.")
    ] = None
    past: Annotated[
        bool, typer.Option("--past", help="Only what bronze has given to the backup (bronze.keep), beside the lake, for a day.")
    ] = False
    topics: Annotated[bool, typer.Option("--topics", help="Instead of tables: topics and schemas that are gone.")] = False
    connectors: Annotated[
        bool, typer.Option("--connectors", help="Instead of tables: connectors that are gone, with their offsets.")
    ] = False

    @property
    def is_of_clusters(self) -> bool:
        """Whether topics or connectors are asked for, and no table."""
        return self.topics or self.connectors

    @property
    def wanted(self) -> WantedKeys:
        """The keys whose rows are restored."""
        return WantedKeys(tuple(self.keys or ()), self.from_key, self.to_key)


@group_options
def restore(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A source.", autocompletion=complete_source)],
    tables: Annotated[list[str] | None, typer.Argument(metavar="[TABLE]…", help="By short name; all without.")] = None,
    choice: RestoreOptions = RestoreOptions(),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what there is to restore, and change nothing.")] = False,
    output: Output = Format.text,
) -> None:
    """Make bronze from the backup, and silver and histories from bronze.

    Tables that are there are not touched: exit 2. Killed, the same command goes on. Exit 1 when
    something of the backup is damaged: the tables without damage are restored.
    """
    settings.export_stack_environment()
    if choice.is_of_clusters:
        _restore_clusters(source, tables or [], choice, dry_run, output)
        return
    with report_errors():
        if choice.past:
            print_rows(_bring_back(source, tables or [], choice, dry_run), output, narrow=("table", "outcome", "records"))
            return
        request = _request(source, tables or [], choice)
        rows = _plan(request) if dry_run else _restore(request, needs_spark=choice.into is not None)
    print_rows([request.row_of(row) for row in rows], output, narrow=_SHOWN)
    for sentence in (sentence for row in rows for sentence in row.damage):
        print(f"damaged: {sentence}", file=sys.stderr)
    if any(row.damage for row in rows):
        raise typer.Exit(1)


def _bring_back(name: str, tables: list[str], choice: RestoreOptions, dry_run: bool) -> list[dict[str, Any]]:
    from cdc_assets.resources.platform import Platform
    from cdc_assets.restore.past_records import bring_back, floor_of_table
    from cdc_assets.restore.restore_source import tables_of

    if choice.into or choice.to or choice.skip_damaged or choice.wanted:
        raise typer.BadParameter(
            "--past is up to where bronze begins, and whole: give it without --into, --to, --skip-damaged and keys"
        )
    (source,) = chosen_sources([name])
    platform, rows = Platform(), []
    for table in tables_of(source, tables):
        floor = floor_of_table(platform.lake, source, table)
        found = None if dry_run else bring_back(platform, source, table, console.print)
        outcome = found.outcome if found else "gone" if floor else "there"
        rows.append({"table": names.table_name(table), "outcome": outcome, "records": floor.records if floor else 0})
    return rows


def _restore_clusters(name: str, tables: list[str], choice: RestoreOptions, dry_run: bool, output: Format) -> None:
    from cdc_assets.cli.restore_clusters import restore_clusters

    if tables or choice.into or choice.to or choice.skip_damaged or choice.wanted or choice.past:
        raise typer.BadParameter(
            "--topics and --connectors are of the whole source: give them without tables, --into, --to or --past"
        )
    (source,) = chosen_sources([name])
    with report_errors():
        restore_clusters(source, topics=choice.topics, connectors=choice.connectors, dry_run=dry_run, output=output)


def _request(name: str, tables: list[str], choice: RestoreOptions) -> RestoreRequest:
    from cdc_assets.resources.platform import Platform
    from cdc_assets.restore.restore_wish import RestoreWish, make_request

    (source,) = chosen_sources([name])
    wish = RestoreWish(tuple(tables), choice.into, choice.to, choice.skip_damaged, choice.wanted)
    return make_request(Platform(), source, wish)


def _plan(request: RestoreRequest) -> list[RestoredTable]:
    from cdc_assets.restore.restored_bronze import plan_bronze

    return plan_bronze(request)


def _restore(request: RestoreRequest, *, needs_spark: bool) -> list[RestoredTable]:
    """Into the lake itself without Spark as well: the runs of the source make silver when they go on."""
    from cdc_assets.resources.platform import Platform
    from cdc_assets.restore.restore_source import restore_source
    from cdc_assets.restore.restored_bronze import restore_bronze

    if needs_spark:
        settings.address("CDC_SPARK_REMOTE")  # before an hour of bronze
    if settings.lookup("CDC_SPARK_REMOTE"):
        return restore_source(Platform(), request, console.print)
    found = restore_bronze(request, console.print)
    console.print("bronze is restored; no Spark runs here, so silver and histories follow with the source's runs: ./cdc up")
    return found
