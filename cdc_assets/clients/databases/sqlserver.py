"""A SQL Server source: its rows by python-tds, and its columns by `sys.columns`.

Written by its documentation and tested on recorded answers: no server has been asked.

What the connector sends of each type:
https://debezium.io/documentation/reference/3.6/connectors/sqlserver.html#sqlserver-data-types
and SqlServerValueConverters, JdbcValueConverters (uniqueidentifier is CHAR to the driver, rowversion and image are bytes, and
sql_variant, hierarchyid, geometry, geography, json and vector have no converter). A computed column of a capture instance is
always NULL:
https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-enable-table-transact-sql
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any
from uuid import UUID

from cdc_assets.clients.databases.catalogue import CatalogueTable
from cdc_assets.clients.databases.drivers import DriverConnection
from cdc_assets.clients.databases.translated_catalogue import FoundColumn, condition_for, place_of, tables_of
from cdc_assets.registry import settings
from cdc_assets.registry.databases import SqlServer
from cdc_assets.registry.field_types import TableId
from spark.values.other_databases import TICKS, UNREAD, ZONE, ZONE_TICKS
from spark.values.sql_dialects import SqlServerDialect


class SqlServerConnection(DriverConnection):
    """One database of a server."""

    NAME, DRIVER = "SQL Server", ("pytds", "python-tds")
    dialect = SqlServerDialect()
    _database: SqlServer

    def _connect(self, driver: Any, host: str, port: int) -> AbstractContextManager[Any]:
        database = self._database
        return driver.connect(
            dsn=f"{host}\\{database.instance}" if database.instance else host,
            port=None if database.instance else port,
            database=database.dbname,
            user=settings.resolve(database.user),
            password=settings.secret(database.password),
            readonly=database.read_only_replica,
            login_timeout=10,
            autocommit=True,
            appname="cdc_assets",
            **_tls(encrypt=database.encrypt, trusting=database.trust_server_certificate),
        )

    def _errors(self, driver: Any) -> tuple[type[Exception], ...]:
        return driver.tds_base.Error, ValueError

    def _reason(self, error: Exception) -> str:
        # The driver tries again until its time is over, and then says nothing of why.
        return str(error) or ("no answer within 10 s" if isinstance(error, TimeoutError) else type(error).__name__)

    def normalize(self, value: Any) -> Any:
        """Debezium's driver writes a uniqueidentifier in capitals."""
        return str(value).upper() if isinstance(value, UUID) else value


def _tls(*, encrypt: bool, trusting: bool) -> dict[str, Any]:
    """A CA file is what makes this driver encrypt (with pyOpenSSL): the system's own, one of which must have signed the server's
    certificate; `trusting` leaves out the host's name only.
    """
    import ssl

    if not encrypt:
        return {}
    return {"cafile": ssl.get_default_verify_paths().cafile, "validate_host": not trusting}


# An alias type has the system type's number; a CLR type (geometry) has no system type of its own name.
_COLUMNS = """
SELECT s.name, t.name, c.name, COALESCE(b.name, u.name), c.precision, c.scale, c.is_nullable,
       CASE WHEN c.is_computed = 1 OR c.is_column_set = 1 THEN 1 ELSE 0 END,
       CASE WHEN c.default_object_id <> 0 THEN 1 ELSE 0 END, COALESCE(k.key_ordinal, 0)
FROM sys.columns c
JOIN sys.tables t ON t.object_id = c.object_id
JOIN sys.schemas s ON s.schema_id = t.schema_id
JOIN sys.types u ON u.user_type_id = c.user_type_id
LEFT JOIN sys.types b ON b.user_type_id = c.system_type_id
LEFT JOIN (SELECT ic.object_id, ic.column_id, ic.key_ordinal FROM sys.index_columns ic
           JOIN sys.indexes i ON i.object_id = ic.object_id AND i.index_id = ic.index_id
           WHERE i.is_primary_key = 1) k ON k.object_id = c.object_id AND k.column_id = c.column_id
WHERE {wanted} ORDER BY s.name, t.name, c.column_id
"""
_SAME = {
    "bit": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "real": "real",
    "float": "double precision",
    "money": "numeric(19,4)",
    "smallmoney": "numeric(10,4)",
    "date": "date",
    "datetime": "timestamp(3) without time zone",
    "smalldatetime": "timestamp(0) without time zone",
    **dict.fromkeys(("char", "varchar", "text", "nchar", "nvarchar", "ntext", "sysname"), "text"),
    "xml": "xml",
    "uniqueidentifier": "uuid",
    **dict.fromkeys(("binary", "varbinary", "image", "timestamp", "rowversion"), "bytea"),
}
_DIGITS = 6


def translate(name: str, precision: int, scale: int) -> tuple[str, str]:
    """A type as `sys.types` calls it, as PostgreSQL would write it, and its kind (spark.values.other_databases)."""
    if name in _SAME:
        return _SAME[name], ""
    if name in ("decimal", "numeric"):
        return f"numeric({precision},{scale})", ""
    digits, beyond = min(scale, _DIGITS), scale > _DIGITS
    if name == "datetime2":
        return f"timestamp({digits}) without time zone", TICKS if beyond else ""
    if name == "time":
        return f"time({digits}) without time zone", TICKS if beyond else ""
    if name == "datetimeoffset":
        return f"timestamp({digits}) with time zone", ZONE_TICKS if beyond else ZONE
    return name, UNREAD


class SqlServerColumns:
    """The tables of one database (translated_catalogue.TranslatedCatalogue)."""

    def __init__(self, database: SqlServer) -> None:
        self._database = database

    @property
    def place(self) -> str:
        """The server as `host:port`."""
        return f"SQL Server at {place_of(self._database)}"

    def tables(self, ids: Sequence[TableId]) -> dict[TableId, CatalogueTable]:
        """Each table that exists; one query for all."""
        server = SqlServerConnection(self._database)
        with server.cursor() as cursor:
            cursor.execute(
                _COLUMNS.format(wanted=condition_for(server, ids, "s.name", "t.name")),
                [identifier for id_ in ids for identifier in id_],
            )
            rows = cursor.fetchall()
        columns = []
        for schema, table, name, type_, precision, scale, nullable, computed, defaulted, key in rows:
            column_type, kind = translate(type_, int(precision or 0), int(scale or 0))
            columns.append(
                FoundColumn(
                    table=TableId(schema, table),
                    name=name,
                    type=column_type,
                    kind="generated" if computed else kind,
                    nullable=bool(nullable),
                    defaulted=bool(defaulted),
                    key_place=int(key),
                )
            )
        return tables_of(columns)

    def misread(self, table: CatalogueTable, columns: Sequence[str], *, snapshot: bool) -> dict[str, str]:
        """Nothing beyond what the types say."""
        return {}
