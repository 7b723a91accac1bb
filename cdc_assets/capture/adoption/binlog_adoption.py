"""A connector of a binlog, MariaDB's or MySQL's, that is taken over: its address, and its tables by its lists, since there
is neither slot nor publication.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from cdc_assets.capture.adoption.running_connector import FoundAtSource, RunningConnector, handling_modes, tables_of_lists
from cdc_assets.clients.databases.binlog import BinlogDatabase
from cdc_assets.clients.databases.mariadb import MariaDbDatabase
from cdc_assets.clients.databases.mysql import MySqlDatabase
from cdc_assets.registry.databases import MariaDb, MySql
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.kinds import expect
from cdc_assets.registry.record_forms import ValueForms
from cdc_assets.registry.source_declaration import CapturedSource

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
    """What `cdc adopt` reads of a source with a binlog (`running_connector.AdoptionKind`)."""

    KIND: ClassVar[str]

    @abstractmethod
    def server(self, source: CapturedSource) -> BinlogDatabase:
        """The source's server, opened for questions."""

    def database(self, running: RunningConnector, password: Mapping[str, Any]) -> dict[str, Any]:
        """Where the connector finds it."""
        config = running.config
        block = {
            "kind": self.KIND,
            "host": config.get("database.hostname", ""),
            "port": int(running.setting("database.port") or 3306),
            "user": config.get("database.user", ""),
            "password": dict(password),
        }
        store = config.get("database.ssl.truststore")
        return {**block, "truststore": store} if store else block

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
        """The tables that its lists take. Raises RefusalError: there is none."""
        database = self.server(source)
        with database.connection() as cursor:
            cursor.execute(_TABLES)
            there = [TableId(*row) for row in cursor.fetchall()]
        tables = tables_of_lists(running, there)
        if not tables:
            raise RefusalError(f"the server at {database.place} has no table in the lists of connector {running.name}")
        catalogue = database.tables(tables)
        return FoundAtSource(
            tables=tables,
            keyless=[table for table, about in catalogue.items() if not about.primary_key],
            facts={"binlog": {"client": running.config.get("database.server.id"), "kind": database.NAME}},
        )


class MariaDbAdoption(BinlogAdoption):
    """What `cdc adopt` reads of a MariaDB source."""

    KIND = "mariadb"

    def server(self, source: CapturedSource) -> MariaDbDatabase:
        """The source's MariaDB, opened for questions."""
        return MariaDbDatabase(expect(source.database, MariaDb))


_SSL = ("disabled", "preferred", "required", "verify_ca", "verify_identity")


class MySqlAdoption(BinlogAdoption):
    """What `cdc adopt` reads of a MySQL source. Its tables declare no columns: the catalogue tells them."""

    KIND = "mysql"

    def database(self, running: RunningConnector, password: Mapping[str, Any]) -> dict[str, Any]:
        """Where the connector finds it, how it is encrypted, and whether its snapshots lock."""
        block = super().database(running, password)
        config = running.config
        ssl, locking, zone = (
            running.setting("database.ssl.mode"),
            running.setting("snapshot.locking.mode"),
            config.get("database.connectionTimeZone") or config.get("driver.connectionTimeZone"),
        )
        block |= {"sslmode": ssl} if ssl in _SSL and ssl != "preferred" else {}
        block |= {"snapshot_locking": locking} if locking in ("extended", "none") else {}
        return {**block, "time_zone": zone} if zone else block

    def server(self, source: CapturedSource) -> MySqlDatabase:
        """The source's MySQL, opened for questions."""
        return MySqlDatabase(expect(source.database, MySql))
