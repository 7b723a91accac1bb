"""SQL Server's columns, by `sys.columns`. Tested on recorded answers: not run against a server.

What the connector sends of each type: https://debezium.io/documentation/reference/3.6/connectors/sqlserver.html#sqlserver-data-types
and SqlServerValueConverters, JdbcValueConverters (uniqueidentifier is CHAR to the driver, rowversion and image are bytes, and
sql_variant, hierarchyid, geometry, geography, json and vector have no converter). A computed column of a capture instance is
always NULL: https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-enable-table-transact-sql
"""

from __future__ import annotations

from collections.abc import Sequence

from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.sqlserver import SqlServer
from cdc_assets.resources.columns.translated import FoundColumn, condition_for, place_of, tables_of
from cdc_assets.resources.databases.catalogue import CatalogueTable
from cdc_assets.resources.rows.sqlserver import SqlServerConnection
from spark.kinds.column_losses import TICKS, UNREAD, ZONE, ZONE_TICKS

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
    """A type as `sys.types` calls it, as PostgreSQL would write it, and its kind (spark.kinds.column_losses)."""
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
    """The tables of one database (translated.TranslatedCatalogue)."""

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
                _COLUMNS.format(wanted=condition_for(server, ids, "s.name", "t.name")), [part for id_ in ids for part in id_]
            )
            rows = cursor.fetchall()
        found = []
        for schema, table, name, type_, precision, scale, nullable, computed, defaulted, key in rows:
            told, kind = translate(type_, int(precision or 0), int(scale or 0))
            found.append(
                FoundColumn(
                    table=TableId(schema, table),
                    name=name,
                    type=told,
                    kind="generated" if computed else kind,
                    nullable=bool(nullable),
                    defaulted=bool(defaulted),
                    key_place=int(key),
                )
            )
        return tables_of(found)

    def misread(self, table: CatalogueTable, columns: Sequence[str], *, snapshot: bool) -> dict[str, str]:
        """Nothing beyond what the types say."""
        return {}
