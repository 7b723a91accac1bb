"""The capturing connector's config, by the kind of the source's database."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cdc_assets.connectors import mariadb, mongodb, mysql, oracle, postgresql, sqlserver
from cdc_assets.connectors.records import table_pattern
from cdc_assets.registry.models import CapturedSource

CONFIGS: Mapping[str, Callable[[CapturedSource], dict[str, str]]] = {
    "postgresql": postgresql.capture_config,
    "mariadb": mariadb.capture_config,
    "mysql": mysql.capture_config,
    "sqlserver": sqlserver.capture_config,
    "oracle": oracle.capture_config,
    "mongodb": mongodb.capture_config,
}


def capture_config(source: CapturedSource) -> dict[str, str]:
    """The whole config of `<source>-capture`."""
    return CONFIGS[source.database.kind](source)


def not_listed(source: CapturedSource, running: Mapping[str, str] | None) -> str:
    """The declared tables that a running connector's list does not have, as `cdc onboard` takes them; empty without one."""
    if running is None:
        return ""
    listed = running.get("table.include.list", running.get("collection.include.list", "")).split(",")
    return " ".join(table.name for table in source.tables if table_pattern(*table.id) not in listed)
