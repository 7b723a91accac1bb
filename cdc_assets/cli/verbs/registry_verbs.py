"""`cdc validate` and `cdc reload`: check every registry file without any service, and bring them into the running Dagster."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from cdc_assets.cli.output_formats import Format, Output, is_data, print_document
from cdc_assets.cli.verb_frame import verb
from cdc_assets.registry import settings
from cdc_assets.registry.errors import RegistryError
from cdc_assets.registry.field_types import NEVER, format_duration
from cdc_assets.registry.kinds import experimental_warnings
from cdc_assets.registry.loader import load_sources
from cdc_assets.registry.names import table_name
from cdc_assets.registry.retention import keeps_all_for_history
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity
from spark.table.lake_location import is_object

if TYPE_CHECKING:
    from cdc_assets.operations.registry_reload import RegistryNews


@verb()
def validate(
    folder: Annotated[Path | None, typer.Argument(help="Folder of the registry files; default CDC_SOURCES.")] = None,
    output: Output = Format.text,
) -> None:
    """Check all registry files; exit 1 with every finding when one is wrong."""
    registry_folder = folder or settings.sources_folder()
    try:
        sources = load_sources(registry_folder)
    except RegistryError as error:
        if is_data(output):
            findings = [{"file": str(f.file), "line": f.line, "path": f.path, "message": f.message} for f in error.findings]
            print_document({"valid": False, "findings": findings}, output)
        else:
            print(error, file=sys.stderr)
            print(f"{quantity(len(error.findings), 'finding')} in {registry_folder}", file=sys.stderr)
        raise typer.Exit(1) from None
    foreign = [sentence for source in sources for table in source.tables for sentence in _portability(source, table)]
    if is_data(output):
        tables_of = {s.name: [table_name(t) for t in s.tables] for s in sources}
        experimental = experimental_warnings(sources)
        kept = {s.name: [table_name(t) for t in tables] for s in sources if (tables := keeps_all_for_history(s))}
        answer = {"valid": True, "sources": tables_of, "experimental": experimental, "not_portable": foreign}
        answer["keeps_all_backup"] = kept
        answer["rows_compared"] = {s.name: _rows_rhythm(s) for s in sources}
        print_document(answer, output)
        return
    for source in sources:
        listed = ", ".join(table_name(table) for table in source.tables)
        print(f"{source.name}: {quantity(len(source.tables), 'table')} ({listed})")
        for name, warning in experimental_warnings([source]).items():
            print(f"{name}: {warning}")
        if source.asked is None:
            print(f"{source.name}: {_rows_sentence(source)}")
        if tables := keeps_all_for_history(source):
            listed = ", ".join(table_name(table) for table in tables)
            print(f"{source.name}: {listed}: all of the backup is kept, for the history (scd2) has versions of every epoch")
    for sentence in foreign:
        print(f"warning: {sentence}", file=sys.stderr)
    print(f"{quantity(len(sources), 'source')} in {registry_folder}: valid")


def _rows_rhythm(source: BaseSource) -> str:
    if source.asked is not None:
        return f"with the counts, {format_duration(source.volumetry.every)}"
    return format_duration(source.rows_every) if source.rows_every else NEVER


def _rows_sentence(source: BaseSource) -> str:
    """How often rows are compared; where they never are, what to declare."""
    if source.rows_every is not None:
        left_out = [table_name(table) for table in source.tables if table not in source.rows_tables]
        return f"rows are compared every {_rows_rhythm(source)}" + (f", not of {', '.join(left_out)}" if left_out else "")
    if source.reconciliation.every == NEVER:
        return "rows are never compared, as declared"
    if source.captured is not None:
        return "rows are never compared: declare a marker table (reconciliation: {marker: schema.table})"
    return "rows are never compared: declare a rhythm (reconciliation: {every: 6h})"


def _portability(source: BaseSource, table: Table) -> Iterator[str]:
    """What a lake on a local disk has of a table that is declared portable; no service is asked."""
    lake = settings.lake()
    if source.is_portable(table) and not is_object(lake):
        from cdc_assets.chain.table_drift import portability_findings

        yield from portability_findings(lake, source, table)


@verb()
def reload(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would come and go, and do nothing.")] = False,
    timeout: Annotated[float, typer.Option(min=1.0, help="Seconds to wait for Dagster to have it.")] = 120.0,
    output: Output = Format.text,
) -> None:
    """Take new, changed and removed registry files into Dagster, and what CDC_DEFINITIONS names.

    Exit 1 when one is broken, and nothing has changed then.
    """
    from cdc_assets.defs.source_chain import definitions_of
    from cdc_assets.operations.dagster_webserver import Webserver
    from cdc_assets.operations.own_definitions import news_of_definitions
    from cdc_assets.operations.registry_reload import compare

    url, folder = settings.address("CDC_DAGSTER_URL"), settings.sources_folder()
    sources = load_sources(folder)
    locations = Webserver(url, seconds=timeout).locations()
    news = replace(compare(folder, locations), definitions=news_of_definitions(url))
    answer: dict[str, Any] = {"folder": str(folder), **news.to_json()}
    if dry_run:
        expected = definitions_of(sources, news.gone)
        answer |= expected.difference(locations)
    else:
        answer |= _take_in_all(url, sources, news, timeout)
    if is_data(output):
        print_document(answer, output)
        return
    for word in ("new", "changed", "gone"):
        if answer[word]:
            print(f"{word}: {', '.join(answer[word])}")
    if news.definitions:
        print(f"your definitions: {news.definitions}")
    if dry_run:
        _print_plan(answer)
        return
    assets, checks, jobs = (quantity(answer[f"{noun}s"], noun) for noun in ("asset", "check", "job"))
    counted = f"{assets}, {checks} and {jobs} of {quantity(len(sources), 'source')}"
    print(f"{', '.join(answer['locations'])} at {url} has {counted}; their sensors run; {answer['seconds']} s")


def _take_in_all(url: str, sources: Sequence[BaseSource], news: RegistryNews, timeout: float) -> dict[str, Any]:
    from cdc_assets.defs.code_location import try_user_definitions
    from cdc_assets.defs.source_chain import take_in_sources
    from cdc_assets.operations.own_definitions import await_definitions, offer_definitions

    say = Console(stderr=True, highlight=False, markup=False, soft_wrap=True).print
    offer_definitions(url, try_user_definitions)
    taken = take_in_sources(url, sources, gone=news.gone, timeout=timeout, say=lambda text: say(text)).to_json()
    loaded = await_definitions(url, timeout=timeout)
    return {**taken, "definitions": {"named": loaded.named, "assets": list(loaded.assets)} if loaded and loaded.named else None}


def _print_plan(answer: dict[str, Any]) -> None:
    for word in ("to_come", "to_go"):
        for text in answer[word]:
            print(f"{word.replace('_', ' ')}: {text}")
    if not answer["to_come"] and not answer["to_go"]:
        print(f"Dagster has all that {answer['folder']} declares")
