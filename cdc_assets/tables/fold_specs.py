"""What the folding jobs of one table need: silver's and the history's specs, from the declaration and the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cdc_assets import names
from cdc_assets.connectors.unchanged_value import PUBLIC
from cdc_assets.errors import HistoryWithoutKeyError
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.compatibility import is_portable
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.databases.catalogue import CatalogueTable
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.schema_ledger import last_known
from cdc_assets.tables.columns import source_columns
from cdc_assets.tables.source_catalogue import catalogue_of
from spark.kinds.record_marks import DEBEZIUM_UNAVAILABLE
from spark.specs import Column, SilverSpec


def last_known_table(lake: str, source: BaseSource, table: Table) -> CatalogueTable | None:
    """A table that the source has no more, as silver has folded it last; None where it is declared to halt then."""
    if (table.schema_changes or source.schema_changes).drop_table == "halt":
        return None
    return last_known(names.silver_path(lake, source, table), table.id)


def catalogue_or_last_known(
    platform: Platform, source: BaseSource, tables: Sequence[Table], say: Callable[[str], object]
) -> dict[TableId, CatalogueTable]:
    """The tables as the source has them now; one that it has no more as it was known last.

    Raises:
        DatabaseError: the source cannot be asked.
    """
    found = dict(catalogue_of(platform, source, tables))
    for table in tables:
        if table.id not in found and (gone := last_known_table(platform.lake, source, table)):
            found[table.id] = gone
            say(f"{table.name}: the source has no such table any more; folded as it was known last")
    return found


def silver_spec(lake: str, source: BaseSource, table: Table, found: CatalogueTable) -> SilverSpec:
    """What the job needs, from the declaration and the catalogue."""
    return SilverSpec(
        source=source.name,
        table=names.table_name(table),
        bronze_path=names.bronze_path(lake, source),
        path=names.silver_path(lake, source, table),
        columns=source_columns(source, table, found),
        keys=() if table.without_key == "multiset" else table.keys or found.primary_key,
        without_key=table.without_key,
        generation=found.generation,
        drops=found.drops,
        ignore_null_updates=_null_ignored(table, source_columns(source, table, found)),
        columns_to_update=table.columns_to_update or "",
        unavailable=(source.captured.capture.unchanged_text or PUBLIC) if source.captured else DEBEZIUM_UNAVAILABLE,
        schema_changes=(table.schema_changes or source.schema_changes).model_dump(),
        renamed=table.renamed,
        **source.record_form(table),
        deletes=table.deletes,
        truncate=table.truncate,
        quarantine_path=names.quarantine_path(lake, source, table),
        quarantine_limit=table.quarantine.max_records,
        portable=is_portable(source, table),
        past=names.past_path(lake, source, table),
        where=tuple(each.condition for each in table.where),
        foreign=source.captured is None,
        excluded=tuple(c.name for c in found.columns if c.name in table.except_column_list),
    )


def _null_ignored(table: Table, columns: Sequence[Column]) -> tuple[str, ...]:
    listed, spared = table.ignore_null_updates_column_list, table.ignore_null_updates_except_column_list
    if not (table.ignore_null_updates or spared):
        return listed
    return tuple(c.name for c in columns if c.name not in (*spared, *(table.keys or ()), table.columns_to_update))


def history_spec(lake: str, source: BaseSource, table: Table, silver: SilverSpec) -> SilverSpec:
    """The same for the table of all versions.

    Raises:
        HistoryWithoutKeyError: nothing tells which rows are versions of one.
    """
    if not silver.keys:
        raise HistoryWithoutKeyError(f"{source.name}/{silver.table}: history: scd2 needs a key; declare the table's keys")
    tracked = table.track_history_column_list
    if table.track_history_except_column_list:
        left_out = {*table.track_history_except_column_list, *silver.keys}
        tracked = tuple(c.name for c in silver.columns if c.name not in left_out)
    return replace(silver, path=names.history_path(lake, source, table), track_history=tracked)
