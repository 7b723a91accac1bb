"""The schema ledger of a silver table, read without Spark."""

from __future__ import annotations

from cdc_assets.resources.delta_log import open_table
from spark.schema.ledger import PROPERTY, Ledger


def ledger_of(path: str) -> Ledger | None:
    """The table's ledger; None when there is no table, or none in it."""
    table = open_table(path)
    text = None if table is None else table.metadata().configuration.get(PROPERTY)
    return None if text is None else Ledger.from_text(text)


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
