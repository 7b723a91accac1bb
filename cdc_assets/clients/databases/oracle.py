"""An Oracle source: its rows by oracledb ("thin"), and its columns by `ALL_TAB_COLS`.

Written by its documentation and tested on recorded answers: no server has been asked.

What the connector sends of each type:
https://debezium.io/documentation/reference/3.6/connectors/oracle.html#oracle-data-type-mappings
With `decimal.handling.mode=string` a NUMBER is text of whatever size; of a scale below 0 it is a number (OracleValueConverters).
"If the connector attempts to capture an event that includes a column with one of these unsupported data types, it skips the
event": a table that has one is refused, whether the column is left out or not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from cdc_assets.clients.databases.catalogue import CatalogueTable
from cdc_assets.clients.databases.drivers import DriverConnection
from cdc_assets.clients.databases.translated_catalogue import FoundColumn, condition_for, place_of, tables_of
from cdc_assets.registry import settings
from cdc_assets.registry.databases import Oracle
from cdc_assets.registry.field_types import TableId
from spark.values.other_databases import LOBS, MOMENT_TICKS, TICKS, UNREAD, ZONE, ZONE_TICKS
from spark.values.sql_dialects import OracleDialect


class OracleConnection(DriverConnection):
    """One database, or one pluggable database of it."""

    NAME, DRIVER = "Oracle", ("oracledb", "oracledb")
    dialect = OracleDialect()
    _database: Oracle

    @contextmanager
    def _connect(self, driver: Any, host: str, port: int) -> Iterator[Any]:
        database = self._database
        with driver.connect(
            host=host,
            port=port,
            service_name=database.pdb or database.dbname,
            user=settings.resolve(database.user),
            password=settings.secret(database.password),
            tcp_connect_timeout=10,
        ) as connection:
            connection.autocommit = True
            connection.outputtypehandler = _fetch_type(driver)
            yield connection

    def _errors(self, driver: Any) -> tuple[type[Exception], ...]:
        return (driver.Error,)

    def _reason(self, error: Exception) -> str:
        return " ".join(str(error).split())


def _fetch_type(driver: Any) -> Callable[[Any, Any], Any]:
    """Numbers with all their digits, and values where the driver would give locators."""
    whole = {
        driver.DB_TYPE_CLOB: driver.DB_TYPE_LONG,
        driver.DB_TYPE_NCLOB: driver.DB_TYPE_LONG_NVARCHAR,
        driver.DB_TYPE_BLOB: driver.DB_TYPE_LONG_RAW,
    }

    def fetch_type(cursor: Any, metadata: Any) -> Any:
        if metadata.type_code == driver.DB_TYPE_NUMBER:
            return cursor.var(str, 255, cursor.arraysize, outconverter=Decimal)
        whole_type = whole.get(metadata.type_code)
        return cursor.var(whole_type, arraysize=cursor.arraysize) if whole_type else None

    return fetch_type


_COLUMNS = """
SELECT c.owner, c.table_name, c.column_name, c.data_type, c.data_precision, c.data_scale, c.nullable, c.virtual_column,
       CASE WHEN c.default_length IS NULL THEN 0 ELSE 1 END, COALESCE(k.position, 0)
FROM all_tab_cols c
JOIN all_tables t ON t.owner = c.owner AND t.table_name = c.table_name
LEFT JOIN (SELECT cc.owner, cc.table_name, cc.column_name, cc.position FROM all_constraints ac
           JOIN all_cons_columns cc ON cc.owner = ac.owner AND cc.constraint_name = ac.constraint_name
           WHERE ac.constraint_type = 'P') k
       ON k.owner = c.owner AND k.table_name = c.table_name AND k.column_name = c.column_name
WHERE c.hidden_column = 'NO' AND {wanted} ORDER BY c.owner, c.table_name, c.column_id
"""
_SAME = {
    **dict.fromkeys(("CHAR", "NCHAR", "VARCHAR", "VARCHAR2", "NVARCHAR2", "ROWID"), "text"),
    "BINARY_FLOAT": "real",
    "BINARY_DOUBLE": "double precision",
    "FLOAT": "numeric",
    "RAW": "bytea",
    "DATE": "timestamp(0) without time zone",
}
_LOBS = {"CLOB": "text", "NCLOB": "text", "BLOB": "bytea", "XMLTYPE": "xml"}
_TIMESTAMP = re.compile(r"TIMESTAMP\((\d)\)( WITH (LOCAL )?TIME ZONE)?")
_INTERVAL = re.compile(r"INTERVAL (YEAR\(\d\) TO MONTH|DAY\(\d\) TO SECOND\(\d\))")
_DIGITS = 6
_SKIPPED = (
    "is of a type that Debezium does not read, and its documentation says that it skips each event with one: leaving the column "
    "out does not help; keep it in another table, or declare the table's columns (columns: …) where you know better"
)


def translate(name: str, precision: int | None, scale: int | None, *, lobs: bool) -> tuple[str, str]:
    """A type as `ALL_TAB_COLS` writes it, as PostgreSQL would write it, and its kind (spark.values.other_databases)."""
    if name in _SAME:
        return _SAME[name], ""
    if name in _LOBS:
        return _LOBS[name], "" if lobs else LOBS
    if name == "NUMBER":
        # Of an INTEGER the dictionary has the scale alone.
        return ("numeric" if scale is None else f"numeric({precision or 38},{scale})"), ""
    if interval := _INTERVAL.fullmatch(name):
        return ("interval year to month" if interval[1].startswith("YEAR") else "interval day to second"), ""
    if timestamp := _TIMESTAMP.fullmatch(name):
        digits, beyond = min(int(timestamp[1]), _DIGITS), int(timestamp[1]) > _DIGITS
        if not timestamp[2]:
            return f"timestamp({digits}) without time zone", TICKS if beyond else ""
        if timestamp[3]:
            return f"timestamp({digits}) with time zone", MOMENT_TICKS if beyond else ""
        return f"timestamp({digits}) with time zone", ZONE_TICKS if beyond else ZONE
    return name, UNREAD


class OracleColumns:
    """The tables of one database (translated_catalogue.TranslatedCatalogue)."""

    def __init__(self, database: Oracle) -> None:
        self._database = database

    @property
    def place(self) -> str:
        """The server as `host:port`."""
        return f"Oracle at {place_of(self._database)}"

    def tables(self, ids: Sequence[TableId]) -> dict[TableId, CatalogueTable]:
        """Each table that exists; one query for all."""
        server = OracleConnection(self._database)
        with server.cursor() as cursor:
            query = _COLUMNS.format(wanted=condition_for(server, ids, "c.owner", "c.table_name"))
            cursor.execute(query, [identifier for id_ in ids for identifier in id_])
            rows = cursor.fetchall()
        columns = []
        for owner, table, name, type_, precision, scale, nullable, virtual, defaulted, key in rows:
            column_type, kind = translate(type_, _whole(precision), _whole(scale), lobs=self._database.lobs)
            columns.append(
                FoundColumn(
                    table=TableId(owner, table),
                    name=name,
                    type=column_type,
                    kind="generated" if virtual == "YES" else kind,
                    nullable=nullable == "Y",
                    defaulted=bool(defaulted),
                    key_place=int(key),
                )
            )
        return tables_of(columns)

    def misread(self, table: CatalogueTable, columns: Sequence[str], *, snapshot: bool) -> dict[str, str]:
        """A column that Debezium does not read, wanted or not: the whole event is skipped."""
        return {c.name: _SKIPPED for c in table.columns if c.kind == UNREAD}


def _whole(value: object) -> int | None:
    """Numbers come as decimals."""
    return None if value is None else int(str(value))
