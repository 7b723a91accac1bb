"""What a notebook asks: the lake's tables as data frames of pandas, under the names of `cdc sql`.

Sensitive columns are hashes here as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdc_assets import settings
from cdc_assets.errors import LakeSqlError
from cdc_assets.lake_sql.answer import Answer
from cdc_assets.lake_sql.duckdb_queries import import_duckdb, query_by_duckdb
from cdc_assets.lake_sql.duckdb_scans import read_version
from cdc_assets.lake_sql.lake_tables import LakeTable, lake_tables
from cdc_assets.registry_files.loader import load_sources
from cdc_assets.resources.platform import Platform

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def ask(statement: str | None = None, limit: int = 10_000) -> pd.DataFrame:
    """The rows of one statement, at most so many; `attrs["more"]`: there are others. Without a statement, the lake's tables.

    Raises:
        LakeSqlError: what DuckDB says, with the names that are near to an unknown one.
    """
    import pandas as pd

    tables, platform = _lake()
    if statement is None:
        there = [table for table in tables if table.is_there]
        return pd.DataFrame({"table": [table.name for table in there], "path": [table.path for table in there]})
    found: Answer = query_by_duckdb(statement, tables, platform, limit=limit)
    rows = pd.DataFrame(found.rows, columns=[*found.columns])
    rows.attrs["more"] = found.more
    return rows


def rows_of(source: str, table: str, version: int | None = None) -> pd.DataFrame:
    """All rows of a silver table as a version of it has them (None: the newest); `attrs["version"]` is that version.

    Raises:
        LakeSqlError: there is no such table, or its files of that version are gone.
    """
    at, read = silver_version(source, table, version)
    rows = import_duckdb().from_arrow(read).df()
    rows.attrs["version"] = at
    return rows


def silver_version(source: str, table: str, version: int | None = None) -> tuple[int, pa.Table]:
    """The version of a silver table (None: the newest) and its rows; sensitive columns are hashes.

    Raises:
        LakeSqlError: as rows_of.
    """
    tables, _ = _lake()
    found = next((each for each in tables if each.parts == ("silver", source, table)), None)
    if found is None:
        raise LakeSqlError(f"silver.{source}.{table} is no table of the registry: ask() lists all")
    return read_version(found, version)


def _lake() -> tuple[list[LakeTable], Platform]:
    settings.export_stack_environment()
    platform = Platform()
    return lake_tables(load_sources(settings.sources_folder()), platform.lake), platform
