"""Oracle's columns, by `ALL_TAB_COLS`. Tested on recorded answers: not run against a server.

What the connector sends of each type: https://debezium.io/documentation/reference/3.6/connectors/oracle.html#oracle-data-type-mappings
With `decimal.handling.mode=string` a NUMBER is text of whatever size; of a scale below 0 it is a number (OracleValueConverters).
"If the connector attempts to capture an event that includes a column with one of these unsupported data types, it skips the
event": a table that has one is refused, whether the column is left out or not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.oracle import Oracle
from cdc_assets.resources.columns.translated import FoundColumn, condition_for, place_of, tables_of
from cdc_assets.resources.databases.catalogue import CatalogueTable
from cdc_assets.resources.rows.oracle import OracleConnection
from spark.kinds.column_losses import LOBS, MOMENT_TICKS, TICKS, UNREAD, ZONE, ZONE_TICKS

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
    """A type as `ALL_TAB_COLS` writes it, as PostgreSQL would write it, and its kind (spark.kinds.column_losses)."""
    if name in _SAME:
        return _SAME[name], ""
    if name in _LOBS:
        return _LOBS[name], "" if lobs else LOBS
    if name == "NUMBER":
        # Of an INTEGER the dictionary has the scale alone.
        return ("numeric" if scale is None else f"numeric({precision or 38},{scale})"), ""
    if interval := _INTERVAL.fullmatch(name):
        return ("interval year to month" if interval[1].startswith("YEAR") else "interval day to second"), ""
    if found := _TIMESTAMP.fullmatch(name):
        digits, beyond = min(int(found[1]), _DIGITS), int(found[1]) > _DIGITS
        if not found[2]:
            return f"timestamp({digits}) without time zone", TICKS if beyond else ""
        if found[3]:
            return f"timestamp({digits}) with time zone", MOMENT_TICKS if beyond else ""
        return f"timestamp({digits}) with time zone", ZONE_TICKS if beyond else ZONE
    return name, UNREAD


class OracleColumns:
    """The tables of one database (translated.TranslatedCatalogue)."""

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
            asked = _COLUMNS.format(wanted=condition_for(server, ids, "c.owner", "c.table_name"))
            cursor.execute(asked, [part for id_ in ids for part in id_])
            rows = cursor.fetchall()
        found = []
        for owner, table, name, type_, precision, scale, nullable, virtual, defaulted, key in rows:
            told, kind = translate(type_, _whole(precision), _whole(scale), lobs=self._database.lobs)
            found.append(
                FoundColumn(
                    table=TableId(owner, table),
                    name=name,
                    type=told,
                    kind="generated" if virtual == "YES" else kind,
                    nullable=nullable == "Y",
                    defaulted=bool(defaulted),
                    key_place=int(key),
                )
            )
        return tables_of(found)

    def misread(self, table: CatalogueTable, columns: Sequence[str], *, snapshot: bool) -> dict[str, str]:
        """A column that Debezium does not read, wanted or not: the whole event is skipped."""
        return {c.name: _SKIPPED for c in table.columns if c.kind == UNREAD}


def _whole(value: object) -> int | None:
    """Numbers come as decimals."""
    return None if value is None else int(str(value))
