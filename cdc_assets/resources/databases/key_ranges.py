"""Ranges of keys: how many rows are brought here, each with its key and hash, and what a statement calls their table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdc_assets.errors import DatabaseError
from cdc_assets.registry.identifiers import TableId

if TYPE_CHECKING:
    from spark.reconcile.job import KeyHashes

# Key and hash of half a million rows take about 100 MB here.
MOST_ROWS = 500_000
ROWS = "_cdc_rows"
"""What a statement calls the table whose rows it puts in order; no column is called so (spark.schema.own_names)."""


def few_enough(table: TableId, found: KeyHashes) -> KeyHashes:
    """The rows, where they are no more than MOST_ROWS; a statement asks for one more.

    Raises:
        DatabaseError: there are more. The range was chosen a moment before: the next run chooses another end.
    """
    if found.total() > MOST_ROWS:
        raise DatabaseError(
            f"{table.schema}.{table.table}: more than {MOST_ROWS:,} rows lie in the range of keys that was to be compared: "
            "written since its end was chosen; run it again"
        )
    return found
