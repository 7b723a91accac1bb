"""The schema ledger of a silver table, read without Spark."""

from __future__ import annotations

from cdc_assets.registry.identifiers import TableId
from cdc_assets.resources.databases.catalogue import CatalogueColumn, CatalogueTable
from cdc_assets.resources.delta_log import open_table
from spark.schema.ledger import PROPERTY, Ledger


def ledger_of(path: str) -> Ledger | None:
    """The table's ledger; None when there is no table, or none in it."""
    table = open_table(path)
    text = None if table is None else table.metadata().configuration.get(PROPERTY)
    return None if text is None else Ledger.from_text(text)


def last_known(path: str, table: TableId, *, keyed: bool = True) -> CatalogueTable | None:
    """A table that the source has no more, as silver knew it last; None when there is none, or (`keyed`) no key in its ledger."""
    ledger = ledger_of(path)
    if ledger is None or (keyed and not ledger.keys):
        return None
    fields = {c.name: c.event_field for c in ledger.columns}
    columns = [
        CatalogueColumn(c.name, c.source_type, c.nullable, c.kind, c.number, c.missing, c.defaulted) for c in ledger.of_source()
    ]
    return CatalogueTable(table, tuple(columns), tuple(fields[key] for key in ledger.keys), ledger.generation)


def rows_up_to(path: str, position: str) -> int | None:
    """Rows that were last changed at or before a position; None when delta-rs cannot say (see rows_without_value)."""
    import pyarrow.dataset as ds
    from deltalake.exceptions import DeltaError

    table = open_table(path)
    if table is None:
        return 0
    try:
        return int(table.to_pyarrow_dataset().count_rows(filter=ds.field("_cdc_position") <= position))
    except DeltaError:
        return None


def rows_without_value(path: str, column: str, after: str) -> int | None:
    """Rows that were last changed at or before a position and have NULL in the column; None when delta-rs cannot say.

    It reads no tables with column mapping or widened types.
    """
    import pyarrow.dataset as ds
    from deltalake.exceptions import DeltaError

    table = open_table(path)
    if table is None:
        return 0
    older = (ds.field("_cdc_position") <= after) & ds.field(column).is_null()
    try:
        dataset = table.to_pyarrow_dataset()
    except DeltaError:
        return None
    return int(dataset.count_rows(filter=older)) if column in dataset.schema.names else 0
