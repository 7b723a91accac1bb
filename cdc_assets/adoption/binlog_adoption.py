"""A connector of a binlog, MariaDB's or MySQL's, that is taken over: its tables by its lists, since there is neither slot nor
publication.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from cdc_assets.adoption.found_tables import tables_of_lists
from cdc_assets.adoption.running_connector import RunningConnector
from cdc_assets.adoption.source_block import FoundAtSource, handling_modes
from cdc_assets.errors import AdoptionError
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import CapturedSource
from cdc_assets.registry.value_forms import ValueForms
from cdc_assets.resources.databases.binlog_database import BinlogDatabase

_MODES = {
    "decimal": "decimal.handling.mode",
    "temporal": "time.precision.mode",
    "binary": "binary.handling.mode",
    "unsigned": "bigint.unsigned.handling.mode",
}
_TABLES = """
SELECT table_schema, table_name FROM information_schema.tables
WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')
"""


class BinlogAdoption(ABC):
    """What `cdc adopt` reads of a source with a binlog (`source_block.AdoptionKind`)."""

    KIND: ClassVar[str]

    @abstractmethod
    def server(self, source: CapturedSource) -> BinlogDatabase:
        """The source's server, opened for questions."""

    def database(self, running: RunningConnector, password: Mapping[str, Any]) -> dict[str, Any]:
        """Where the connector finds it."""
        config = running.config
        found = {
            "kind": self.KIND,
            "host": config.get("database.hostname", ""),
            "port": int(running.setting("database.port") or 3306),
            "user": config.get("database.user", ""),
            "password": dict(password),
        }
        store = config.get("database.ssl.truststore")
        return {**found, "truststore": store} if store else found

    def capture(self, running: RunningConnector) -> dict[str, Any]:
        """The id by which the server knows it, the topic of its schema history, and the forms of values."""
        values = handling_modes(running, _MODES, ValueForms().model_dump())
        client = running.config.get("database.server.id")
        return {
            "server_id": int(client) if client and client.isdigit() else None,
            "schema_history": running.config.get("schema.history.internal.kafka.topic"),
            "values": values or None,
        }

    def look(self, running: RunningConnector, source: CapturedSource) -> FoundAtSource:
        """The tables that its lists take.

        Raises:
            AdoptionError: there is none.
        """
        database = self.server(source)
        with database.connection() as cursor:
            cursor.execute(_TABLES)
            there = [TableId(*row) for row in cursor.fetchall()]
        tables = tables_of_lists(running, there)
        if not tables:
            raise AdoptionError(f"the server at {database.place} has no table in the lists of connector {running.name}")
        known = database.tables(tables)
        return FoundAtSource(
            tables=tables,
            keyless=[table for table, about in known.items() if not about.primary_key],
            facts={"binlog": {"client": running.config.get("database.server.id"), "kind": database.NAME}},
        )
