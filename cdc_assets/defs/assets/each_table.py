"""Works the selected tables of a source at the same time and lets one table's failure be its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

import dagster as dg

from cdc_assets import names
from cdc_assets.errors import CdcAssetsError, TableFailuresError
from cdc_assets.registry.models import BaseSource, Table

Result = TypeVar("Result")


def selected_tables(context: dg.AssetExecutionContext, layer: str, source: BaseSource) -> list[Table]:
    """The tables of this step that the run has selected."""
    return [t for t in source.tables if dg.AssetKey(names.asset_key(layer, source, t)) in context.selected_asset_keys]


def each_table(
    layer: str,
    tables: Sequence[Table],
    work: Callable[[Table], Result],
    *,
    workers: int = 4,
    failures: dict[str, str] | None = None,
) -> Iterator[tuple[Table, Result]]:
    """Yield `(table, result)` as each is done.

    Raises:
        TableFailuresError: at the end, naming the tables that failed (`failures` may bring earlier ones).
    """
    failed = dict(failures or {})
    with ThreadPoolExecutor(max_workers=max(1, min(workers, len(tables))), thread_name_prefix=layer) as pool:
        futures = {pool.submit(work, table): table for table in tables}
        for future in as_completed(futures):
            table = futures[future]
            try:
                result = future.result()
            except CdcAssetsError as error:
                failed[names.table_name(table)] = str(error)
                continue
            yield table, result
    if failed:
        raise TableFailuresError(layer, failed)
