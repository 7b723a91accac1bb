"""Whether a table that is declared to stay readable by all still is: its log says which features a reader has to know."""

from __future__ import annotations

from collections.abc import Iterator

from cdc_assets import names
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.compatibility import is_portable
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.delta_log import open_table
from cdc_assets.resources.delta_rows import features_beyond_plain


def portability_findings(lake: str, source: BaseSource, table: Table) -> Iterator[str]:
    """One sentence for the table, and for its history, where a feature came before the declaration; none where all is well."""
    if not is_portable(source, table):
        return
    paths = [names.silver_path(lake, source, table)]
    if table.history == "scd2":
        paths.append(names.history_path(lake, source, table))
    for path in paths:
        delta = open_table(path)
        if delta is not None and (features := features_beyond_plain(delta)):
            yield (
                f"{source.name}/{names.table_name(table)} is declared compatibility: portable, and {path} has "
                f"{', '.join(features)}, which some readers lack; docs/how-to/read-tables.md says how to take that away"
            )
