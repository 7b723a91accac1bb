"""Connectors that work for a while beside one that reads a binlog, MariaDB's or MySQL's: by its own config, under another name.

Options: https://debezium.io/documentation/reference/3.6/connectors/mysql.html, …/3.5/connectors/mariadb.html
"""

from __future__ import annotations

from collections.abc import Sequence

from cdc_assets.connectors.beside import beside_config
from cdc_assets.connectors.debezium_common import exact_pattern, server_id_of
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import CapturedSource

_SCHEMA_ONLY = "snapshot.mode.configuration.based"


def temporary_config(source: CapturedSource, tables: Sequence[Table]) -> dict[str, str]:
    """A connector that reads these tables once into their topics, beside the source's own, and streams nothing.

    Its rows carry the place at which it read them, under a lock: whatever lies below is in them, and nothing else.
    """
    return {**_beside(source, tables), "snapshot.mode": "initial_only"}


def definitions_config(source: CapturedSource, tables: Sequence[Table]) -> dict[str, str]:
    """A connector that writes these tables' definitions into a history of its own, and reads neither rows nor the log."""
    config = {key: value for key, value in _beside(source, tables).items() if not key.startswith("notification.")}
    return {
        **config,
        "snapshot.mode": "configuration_based",
        f"{_SCHEMA_ONLY}.snapshot.schema": "true",
        f"{_SCHEMA_ONLY}.snapshot.data": "false",
        f"{_SCHEMA_ONLY}.start.stream": "false",
        # No row is read: what has changed meanwhile is looked for in the binlog.
        "snapshot.locking.mode": "none",
    }


def _beside(source: CapturedSource, tables: Sequence[Table]) -> dict[str, str]:
    config = beside_config(source, tables)
    return {
        **config,
        "database.server.id": str(server_id_of(config["name"])),
        "database.include.list": ",".join(sorted({exact_pattern(table.id.schema) for table in tables})),
        "table.include.list": ",".join(exact_pattern(*table.id) for table in tables),
    }
