"""A SQL Server connector that is taken over: its address, its database, and its tables. Experimental: tested on recorded answers,
not run against a server.

Lists name tables `schema.table`, topics `prefix.database.schema.table`, signals `database.schema.table`:
https://debezium.io/documentation/reference/3.6/connectors/sqlserver.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cdc_assets.capture.adoption.running_connector import FoundAtSource, RunningConnector, handling_modes, tables_of_lists
from cdc_assets.clients.databases.sqlserver import SqlServerConnection
from cdc_assets.clients.databases.translated_catalogue import place_of
from cdc_assets.registry.databases import SqlServer
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.kinds import expect
from cdc_assets.registry.record_forms import ValueForms
from cdc_assets.registry.source_declaration import CapturedSource
from spark.errors import quantity

_MODES = {"decimal": "decimal.handling.mode", "temporal": "time.precision.mode", "binary": "binary.handling.mode"}
_ISOLATION = {
    **{mode: mode for mode in ("snapshot", "repeatable_read", "read_committed", "exclusive")},
    # The nearest that an entry can name: neither is of one moment. Theirs stays, among the settings.
    "read_uncommitted": "read_committed",
}
_UNENCRYPTED = ("false", "no", "optional")
_DATABASE = "SELECT name, is_cdc_enabled FROM sys.databases WHERE name = DB_NAME()"
# Without those that Debezium leaves out as the server's own (SqlServerConnectorConfig.SystemTablesPredicate, 3.6.1).
_TABLES = """
SELECT s.name, t.name, t.is_tracked_by_cdc,
       CASE WHEN EXISTS (SELECT 1 FROM sys.key_constraints k WHERE k.parent_object_id = t.object_id AND k.type = 'PK')
       THEN 1 ELSE 0 END
FROM sys.tables t JOIN sys.schemas s ON s.schema_id = t.schema_id
WHERE s.name NOT IN ('cdc', 'sys') AND t.name <> 'systranschemas'
"""
_NAMED = 5


class SqlServerAdoption:
    """What `cdc adopt` reads of a SQL Server source (`running_connector.AdoptionKind`)."""

    def database(self, running: RunningConnector, password: Mapping[str, Any]) -> dict[str, Any]:
        """Where the connector finds it, how it is encrypted, and how its snapshots are isolated.
        Raises RefusalError: it captures no database, or several."""
        config = running.config
        block: dict[str, Any] = {
            "kind": "sqlserver",
            "host": config.get("database.hostname", ""),
            "dbname": _only_database(running),
            "user": config.get("database.user", ""),
            "password": dict(password),
        }
        instance, port = config.get("database.instance"), config.get("database.port")
        # Where both are named, the driver takes the port, and the instance stays among the settings.
        block |= {"instance": instance} if instance and not port else {"port": int(port or 1433)}
        isolation = _ISOLATION.get(running.setting("snapshot.isolation.mode") or "", "repeatable_read")
        block |= {"snapshot_isolation": isolation} if isolation != "snapshot" else {}
        block |= {"encrypt": False} if _driver_setting(config, "encrypt") in _UNENCRYPTED else {}
        block |= {"trust_server_certificate": True} if _driver_setting(config, "trustServerCertificate") == "true" else {}
        block |= {"read_only_replica": True} if _driver_setting(config, "applicationIntent") == "readonly" else {}
        return block

    def capture(self, running: RunningConnector) -> dict[str, Any]:
        """The topic of its schema history, and the forms of values."""
        values = handling_modes(running, _MODES, ValueForms().model_dump())
        return {"schema_history": running.config.get("schema.history.internal.kafka.topic"), "values": values or None}

    def look(self, running: RunningConnector, source: CapturedSource) -> FoundAtSource:
        """The tables that its lists take and the server tracks; the database as the server spells it, which topics are named by.
        Raises RefusalError: there is none, or the database has no change data capture."""
        database = expect(source.database, SqlServer)
        where = f"database {database.dbname} at {place_of(database)}"
        with SqlServerConnection(database).cursor() as cursor:
            cursor.execute(_DATABASE)
            (name, enabled), *_ = cursor.fetchall()
            cursor.execute(_TABLES)
            there = {TableId(schema, table): (tracked, key) for schema, table, tracked, key in cursor.fetchall()}
        if not enabled:
            raise RefusalError(
                f"{where} has no change data capture: is it the one of connector {running.name}? EXEC sys.sp_cdc_enable_db"
            )
        signals = _signal_table(running, str(name))
        listed = [table for table in tables_of_lists(running, there, database=str(name)) if ".".join(table) != signals]
        tables = [table for table in listed if there[table][0]]
        if not tables:
            raise RefusalError(f"{where} tracks no table in the lists of connector {running.name} (sys.tables.is_tracked_by_cdc)")
        return FoundAtSource(
            tables=tables,
            keyless=[table for table in tables if not there[table][1]],
            facts={"database": {"name": name, "tables tracked": len(tables)}},
            notes=_notes([table for table in listed if not there[table][0]]),
            blocks={"database": {"dbname": str(name)}} | ({"reconciliation": {"signals": signals}} if signals else {}),
        )


def _only_database(running: RunningConnector) -> str:
    databases = [name.strip() for name in running.config.get("database.names", "").split(",") if name.strip()]
    if len(databases) == 1:
        return databases[0]
    listed = ", ".join(databases) or "database.names is not set"
    raise RefusalError(
        f"connector {running.name} names {quantity(len(databases), 'database')} ({listed}), and a source is "
        "exactly one: give each database a connector of its own, then cdc adopt each of them"
    )


def _driver_setting(config: Mapping[str, str], name: str) -> str:
    """A setting of Microsoft's driver, in lower case: Debezium takes it with either prefix, and this one first."""
    return config.get(f"driver.{name}", config.get(f"database.{name}", "")).strip().lower()


def _signal_table(running: RunningConnector, database: str) -> str:
    """The connector's signal table as a registry names it; empty without one."""
    signals = running.config.get("signal.data.collection", "")
    scope, _, table = signals.partition(".")
    if signals and (scope != database or table.count(".") != 1):
        raise RefusalError(
            f"connector {running.name}: signal.data.collection {signals} is no table of {database}, as SQL Server's connector "
            f"reads it ({database}.schema.table): change it there, then cdc adopt {running.name}"
        )
    return table


def _notes(tables: Sequence[TableId]) -> list[str]:
    if not tables:
        return []
    untracked = ", ".join(map(str, tables[:_NAMED])) + (f" and {len(tables) - _NAMED} more" if len(tables) > _NAMED else "")
    return [
        f"in the connector's lists, but not tracked by change data capture, so no change of theirs comes, and they are left out: "
        f"{untracked}; EXEC sys.sp_cdc_enable_table, then cdc onboard"
    ]
