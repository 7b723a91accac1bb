"""Works the selected tables of a source at the same time and lets one table's failure be its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

from cdc_assets import names
from cdc_assets.errors import CdcAssetsError, TableFailuresError
from cdc_assets.registry.base_table import Table

Result = TypeVar("Result")


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
