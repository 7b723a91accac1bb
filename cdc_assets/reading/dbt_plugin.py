"""The lake's tables as sources of dbt: a plugin of dbt-duckdb, named in a profile by this module (docs/how-to/library.md).

    plugins:
      - {module: cdc_assets.reading.dbt_plugin, alias: cdc, config: {registry_files: [shop.yaml]}}

The table `orders` of a dbt source `shop` is `silver.shop.orders`; `meta: {lake_table: history.shop.orders}` is another. DuckDB
reads what `cdc sql` reads: deletion vectors and column mapping too, and sensitive columns as hashes. Only dbt imports it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dbt.adapters.duckdb.plugins import BasePlugin

from cdc_assets.clients.platform import Platform
from cdc_assets.reading.duckdb_sql import open_scan
from cdc_assets.reading.lake_tables import LakeTable, lake_tables, near_names
from cdc_assets.registry import settings
from cdc_assets.registry.display_text import HiddenValues
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.loader import load_source, load_sources


class DbtPlugin(BasePlugin):
    """Gives dbt-duckdb the tables that dbt's sources name."""

    def initialize(self, plugin_config: dict[str, Any]) -> None:
        """Read the registry: the files that the profile names, else the folder of `CDC_SOURCES`."""
        settings.export_stack_environment()
        files = plugin_config.get("registry_files")
        sources = load_sources(settings.sources_folder()) if files is None else [load_source(Path(file)) for file in files]
        self.platform, self.values = Platform(), HiddenValues()
        self.tables = lake_tables(sources, self.platform.lake)

    def load(self, source_config: Any) -> Any:
        """What DuckDB scans for a table of a source; its version is that of this call.
        Raises RefusalError: the registry has no such table, or the lake has nothing of it yet."""
        named = source_config.get("lake_table") or f"silver.{source_config.schema}.{source_config.identifier}"
        return open_scan(self._find(named), self.platform, self.values)

    def default_materialization(self) -> str:
        """Rows are not copied into DuckDB's file before a model asks for them."""
        return "view"

    def _find(self, named: str) -> LakeTable:
        relation_table = next(
            (table for table in self.tables if named.lower() in (table.name.lower(), ".".join(table.parts).lower())), None
        )
        if relation_table is None:
            near = ", ".join(near_names(named, self.tables))
            raise RefusalError(f"{named} is no table of the registry" + (f"; near: {near}" if near else ""))
        return relation_table


Plugin = DbtPlugin
"""The name that dbt-duckdb looks for in a module."""
