"""The capturing connector's config, by the kind of the source's database."""

from __future__ import annotations

from collections.abc import Mapping

from cdc_assets.connectors import mariadb, postgresql
from cdc_assets.connectors.records import table_pattern
from cdc_assets.registry.models import Source

CONFIGS = {"postgresql": postgresql.capture_config, "mariadb": mariadb.capture_config}


def capture_config(source: Source) -> dict[str, str]:
    """The whole config of `<source>-capture`."""
    return CONFIGS[source.database.kind](source)


def not_listed(source: Source, running: Mapping[str, str] | None) -> str:
    """The declared tables that a running connector's list does not have, as `cdc onboard` takes them; empty without one."""
    if running is None:
        return ""
    listed = running.get("table.include.list", "").split(",")
    return " ".join(table.name for table in source.tables if table_pattern(*table.id) not in listed)
