"""MySQL's columns, by `information_schema`, as PostgreSQL would write their types (docs/reference/databases.md, MySQL)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.mysql import MySql
from cdc_assets.resources.databases.catalogue import CatalogueColumn, CatalogueTable
from cdc_assets.resources.databases.mysql_capture import MySqlCapture
from spark.kinds.column_losses import SIX_DIGITS, UNREAD

_SHAPE = re.compile(r"(?P<name>[a-z]+)\s*(?:\((?P<args>.*)\))?(?P<flags>[a-z ]*)", re.DOTALL)
_SAME = {
    **dict.fromkeys(("tinyint", "tinyint unsigned", "smallint"), "smallint"),
    **dict.fromkeys(("smallint unsigned", "mediumint", "mediumint unsigned", "int", "year"), "integer"),
    **dict.fromkeys(("int unsigned", "bigint"), "bigint"),
    "bigint unsigned": "bigint unsigned",
    "double": "double precision",
    "date": "date",
    "json": "json",
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"), "text"),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), "bytea"),
}
_WITH_DIGITS = {
    "datetime": "timestamp({}) without time zone",
    "timestamp": "timestamp({}) with time zone",
    "time": "time({}) without time zone",
}


def translate(written: str) -> tuple[str, str]:
    """A `column_type`, as PostgreSQL would write it, and its kind (spark.kinds.column_losses)."""
    shape = _SHAPE.fullmatch(written.strip().lower())
    if shape is None:
        return written, UNREAD
    name, args, flags = shape["name"], shape["args"], (shape["flags"] or "").split()
    if name == "decimal":
        return f"numeric({args or '10,0'})", ""
    if name == "float":
        return "real", SIX_DIGITS
    if name == "bit":
        return ("boolean" if args in (None, "1") else f"bit({args})"), ""
    if name in _WITH_DIGITS:
        return _WITH_DIGITS[name].format(args or 0), ""
    # ZEROFILL implies UNSIGNED.
    unsigned = "unsigned" in flags or "zerofill" in flags
    found = _SAME.get(f"{name} unsigned" if unsigned and name != "double" else name)
    return (found, "") if found else (written, UNREAD)


class MySqlColumns:
    """The tables of one server (translated.TranslatedCatalogue)."""

    def __init__(self, database: MySql) -> None:
        self._server = MySqlCapture(database)

    @property
    def place(self) -> str:
        """The server as `host:port`."""
        return f"MySQL at {self._server.place}"

    def tables(self, ids: Sequence[TableId]) -> dict[TableId, CatalogueTable]:
        """Each table that exists; one query for all."""
        return {id_: translate_table(table) for id_, table in self._server.tables(ids).items()}

    def misread(self, table: CatalogueTable, columns: Sequence[str], *, snapshot: bool) -> dict[str, str]:
        """Zero dates, by the types that the columns have in the database."""
        return self._server.misread(table, columns, snapshot=snapshot)


def translate_table(table: CatalogueTable) -> CatalogueTable:
    """A table as information_schema has it, with PostgreSQL's types."""
    return replace(table, columns=tuple(map(_column, table.columns)))


def _column(column: CatalogueColumn) -> CatalogueColumn:
    told, kind = translate(column.type)
    # Elsewhere the kind is the character set: the characters are sent, whatever it is.
    return replace(column, type=told, kind=column.kind if column.kind == "generated" else kind)
