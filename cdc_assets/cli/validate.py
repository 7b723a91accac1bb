"""`cdc validate`: checks every registry file, without any service running."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from cdc_assets import settings
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document
from cdc_assets.kinds import experimental_warnings
from cdc_assets.names import table_name
from cdc_assets.quantity import quantity
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.compatibility import is_portable
from cdc_assets.registry.durations import NEVER, format_duration
from cdc_assets.registry.models import BaseSource
from cdc_assets.registry.retention import keeps_all_for_history
from cdc_assets.registry_files.errors import RegistryError
from cdc_assets.registry_files.loader import load_sources
from spark.lake.place import is_object


def validate(
    folder: Annotated[Path | None, typer.Argument(help="Folder of the registry files; default CDC_SOURCES.")] = None,
    output: Output = Format.text,
) -> None:
    """Check all registry files; exit 1 with every finding when one is wrong."""
    place = folder or settings.sources_folder()
    try:
        sources = load_sources(place)
    except RegistryError as error:
        if is_data(output):
            findings = [{"file": str(f.file), "line": f.line, "path": f.path, "message": f.message} for f in error.findings]
            print_document({"valid": False, "findings": findings}, output)
        else:
            print(error, file=sys.stderr)
            print(f"{quantity(len(error.findings), 'finding')} in {place}", file=sys.stderr)
        raise typer.Exit(1) from None
    foreign = [sentence for source in sources for table in source.tables for sentence in _portability(source, table)]
    if is_data(output):
        found = {s.name: [table_name(t) for t in s.tables] for s in sources}
        experimental = experimental_warnings(sources)
        kept = {s.name: [table_name(t) for t in tables] for s in sources if (tables := keeps_all_for_history(s))}
        told = {"valid": True, "sources": found, "experimental": experimental, "not_portable": foreign, "keeps_all_backup": kept}
        told["rows_compared"] = {s.name: _rows_rhythm(s) for s in sources}
        print_document(told, output)
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
    print(f"{quantity(len(sources), 'source')} in {place}: valid")


def _rows_rhythm(source: BaseSource) -> str:
    """How often rows are compared: `1d`, `never`, or with the counts."""
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
    if is_portable(source, table) and not is_object(lake):
        from cdc_assets.tables.portability import portability_findings

        yield from portability_findings(lake, source, table)
