"""Tables that are not folded: Debezium reads their rows by a model that is not the server's (cdc_assets.preflight.table_models).

What bronze holds of them stays where it is. The other tables of the source go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from cdc_assets import names
from cdc_assets.errors import TableFailuresError
from cdc_assets.preflight.table_models import why_held
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.databases.catalogue import CatalogueTable
from cdc_assets.resources.platform import Platform
from cdc_assets.silver.fold_tables import Results, fold_tables


def fold_others(
    platform: Platform,
    source: BaseSource,
    tables: Sequence[Table],
    catalogue: Mapping[TableId, CatalogueTable],
    bronze_version: int,
    say: Callable[[str], None],
) -> Iterator[tuple[Table, Results]]:
    """`fold_tables` of those that are not held.

    Raises:
        TableFailuresError: at the end, naming the tables that are held or failed.
    """
    held = why_held(platform, source, tables, catalogue)
    failed = {names.table_name(table): held[table.id] for table in tables if table.id in held}
    try:
        yield from fold_tables(platform, source, [t for t in tables if t.id not in held], catalogue, bronze_version, say)
    except TableFailuresError as error:
        failed |= error.failures
    if failed:
        raise TableFailuresError("silver", failed)
