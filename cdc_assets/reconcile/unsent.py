"""Changes without an event (cdc_assets.volumetry.unsent_changes) are over when a comparison finds all rows equal behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cdc_assets import names
from cdc_assets.reconcile.result import TableResult
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.volumetry.unsent_changes import forget_compared

_WHOLE = "1/1"


def forget_equal_tables(source: BaseSource, tables: Sequence[Table], results: Mapping[str, TableResult]) -> None:
    """Nothing of these tables is missing up to the places where all their rows were found equal; results by short name."""
    found = {table.name: results.get(names.table_name(table)) for table in tables}
    places = {name: result.lsn for name, result in found.items() if result and result.equal and result.share == _WHOLE}
    if places:
        forget_compared(source.name, places)
