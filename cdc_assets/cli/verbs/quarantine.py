"""`cdc quarantine`: records that silver could not fold: list, show, redrive, drop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Grid

from cdc_assets.chain.quarantine import QuarantinedRecord, QuarantineFilter, quarantine_records
from cdc_assets.cli.declared_sources import chosen_sources, table_of
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document
from cdc_assets.cli.verb_frame import verb
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names, settings
from cdc_assets.registry.display_text import visible
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table

app = typer.Typer(no_args_is_help=True, help=__doc__)
ChosenTables = Annotated[str | None, typer.Argument(help="SOURCE or SOURCE/TABLE; default all.")]
OneTable = Annotated[str, typer.Argument(help="SOURCE/TABLE")]
Partition = Annotated[int | None, typer.Option(help="Only of this partition.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
ShowSensitive = Annotated[bool, typer.Option("--show-sensitive", help="Values of sensitive columns as they are.")]
SHOWN = ("source", "table", "state", "partition", "offset", "op", "row_key", "error_class", "message", "first_seen")


@dataclass(frozen=True)
class RecordOptions:
    """Which records of a table, as options; all without."""

    error_class: Annotated[str | None, typer.Option("--class", help="Only of this error class.")] = None
    partition: Partition = None
    offset: Annotated[int | None, typer.Option(help="Only the record at this offset.")] = None

    def to_filter(self, *, every_state: bool = False) -> QuarantineFilter:
        """As the chain takes it; `every_state`: those that were decided about as well."""
        return QuarantineFilter(self.error_class, self.partition, self.offset, every_state)


@app.command("list")
@verb()
def list_(
    chosen: ChosenTables = None,
    options: RecordOptions = RecordOptions(),
    every_state: Annotated[
        bool, typer.Option("--all", help="Redriven and dropped records as well, and those of tables that were read again.")
    ] = False,
    output: Output = Format.text,
) -> None:
    """List the records in quarantine. What may hold a value of a sensitive column is a hash."""
    records = _matching_records(chosen, options.to_filter(every_state=every_state))
    rows = [h.to_json() for h in records]
    if is_data(output):
        print_document(rows, output)
        return
    if not rows:
        print("nothing is in quarantine")
        return
    console = Console(highlight=False, width=None if Console().is_terminal else 240)
    grid = Grid(*SHOWN, box=None, pad_edge=False)
    for row in rows:
        grid.add_row(*("" if row[name] is None else visible(row[name]) for name in SHOWN))
    console.print(grid, markup=False)
    console.print(", ".join(f"{count} {name}" for name, count in Counter(h.facts["error_class"] for h in records).items()))


@app.command()
@verb()
def show(
    table: OneTable,
    offset: Annotated[int, typer.Argument(help="Its offset.")],
    partition: Partition = None,
    show_sensitive: ShowSensitive = False,
) -> None:
    """Show one record with its bytes, as JSON; of a table with sensitive columns, their hashes."""
    all_states = QuarantineFilter(None, partition, offset, every_state=True)
    records = _matching_records(table, all_states, raw=True, as_is=show_sensitive)
    if not records:
        raise typer.BadParameter(f"{table} has no record at offset {offset} in quarantine; cdc quarantine list {table} --all")
    print_document([h.to_json(raw=True) for h in records], Format.json)


@dataclass(frozen=True)
class ChosenRecords:
    """What a call chose of a table's records, and how many there were when it began."""

    platform: Platform
    table: str
    record_filter: QuarantineFilter
    count: int
    dry_run: bool

    def run(self, job: str) -> Any:
        """A job of spark.silver.quarantine_redrive on these; None where there is nothing to do."""
        if self.dry_run or not self.count:
            return None
        from spark.silver import quarantine_redrive

        choice = quarantine_redrive.Choice(
            self.record_filter.error_class, None, self.record_filter.partition, self.record_filter.offset
        )
        decided = partial(getattr(quarantine_redrive, job), choice=choice)
        return _run(self.platform, self.table, decided, is_folded=job == "redrive")


def decision(decide: Callable[[ChosenRecords], tuple[dict[str, Any], str]]) -> None:
    """Make `decide` a command. It answers what it did: as facts, and in words for people."""

    @app.command(decide.__name__, help=decide.__doc__)
    @verb()
    def command(
        platform: Platform,
        table: OneTable,
        options: RecordOptions,
        dry_run: DryRun = False,
        output: Output = Format.text,
    ) -> None:
        record_filter = options.to_filter()
        chosen = ChosenRecords(platform, table, record_filter, len(_matching_records(table, record_filter)), dry_run)
        facts, summary = decide(chosen)
        answer = {"table": table, "chosen": chosen.count, **facts, "dry_run": dry_run}
        print_document(answer, output) if is_data(output) else print(f"{table}: {chosen.count} chosen{summary}")
        if facts.get("left"):
            raise typer.Exit(1)


@decision
def redrive(chosen: ChosenRecords) -> tuple[dict[str, Any], str]:
    """Fold records after all, in their place in the order. Mend first what stood against them."""
    done = chosen.run("redrive")
    if done is None:
        return {}, "" if chosen.dry_run else ", 0 folded, 0 left"
    left = len(_matching_records(chosen.table, chosen.record_filter))
    facts = {"redriven": done.redriven, "silver_version": done.version, "seconds": done.seconds, "left": left}
    return facts, f", {done.redriven} folded, {left} left"


@decision
def drop(chosen: ChosenRecords) -> tuple[dict[str, Any], str]:
    """Give records up for good. Silver goes on without them. They stay readable (list --all)."""
    chosen.run("drop")
    dropped = 0 if chosen.dry_run else chosen.count
    return {"dropped": dropped}, f", {dropped} dropped"


def _run(platform: Platform, chosen: str, job: Any, *, is_folded: bool) -> Any:
    from cdc_assets.capture.preflight.table_models import refuse_held
    from cdc_assets.capture.source_columns import catalogue_of
    from cdc_assets.chain.fold_specs import history_spec, silver_spec
    from cdc_assets.chain.quarantine import fold_history_again
    from cdc_assets.clients.table_concurrency import table_lock

    ((source, table),) = _tables(chosen)
    chain = Chain(platform, source)
    catalogue = catalogue_of(chain, [table])
    if table.id not in catalogue:
        raise typer.BadParameter(f"{chosen}: the source has no table {table.name} any more")
    if is_folded:
        refuse_held(chain, table, catalogue[table.id])
    with table_lock("silver", source.name, names.table_name(table)):
        spec = silver_spec(platform.lake, source, table, catalogue[table.id])
        done = platform.spark().run(job, spec)
        if table.history == "scd2":
            fold_history_again(platform, history_spec(platform.lake, source, table, spec), spec.path)
        return done


def _matching_records(
    chosen: str | None, wanted: QuarantineFilter, *, raw: bool = False, as_is: bool = False
) -> list[QuarantinedRecord]:
    lake = settings.lake()
    records = ((table, h) for source, table in _tables(chosen) for h in quarantine_records(lake, source, table, wanted, raw=raw))
    return [h if as_is else h.hidden(table) for table, h in records]


def _tables(chosen: str | None) -> list[tuple[BaseSource, Table]]:
    name, _, short = (chosen or "").partition("/")
    picked = chosen_sources([name] if name else ())
    if not short:
        return [(source, table) for source in picked for table in source.tables]
    return [(source, table_of(source, short)) for source in picked]
