"""MySQL's rows, by PyMySQL, in a session whose settings are our own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cdc_assets.registry.mysql import MySql
from cdc_assets.resources.drivers import pymysql_cursor
from cdc_assets.resources.rows.sql import Connection, Statements
from spark.delta.identifiers import quote

if TYPE_CHECKING:
    from spark.specs import Column

# A TIMESTAMP is read in UTC; NO_BACKSLASH_ESCAPES would change how the driver writes bound values.
_SETTINGS = "SET SESSION time_zone = '+00:00', sql_mode = '', lock_wait_timeout = 2"


class MySqlStatements(Statements):
    """Backticks, `%s` and LIMIT."""

    def quote(self, name: str) -> str:
        """The driver takes `%` for a place of a value."""
        return quote(name).replace("%", "%%")

    def value(self, column: Column) -> str:
        """A FLOAT is written with six digits unless it is calculated with."""
        name = self.quote(column.name)
        return f"{name} + 0e0" if column.source_type == "real" else name

    def placeholder(self, number: int) -> str:
        """PyMySQL's sign for a parameter, which are bound by order."""
        return "%s"

    def limit(self, select: str, rows: int) -> str:
        """The SELECT with a LIMIT at its end."""
        return f"{select} LIMIT {rows}"

    def plain(self, name: str) -> str:
        """A percent sign as it is."""
        return quote(name)

    def text_literal(self, text: str) -> str:
        """By its bytes: whether a backslash is one depends on the session that reads it."""
        return f"_utf8mb4 X'{text.encode().hex()}'"


class _AnyText(MySqlStatements):
    """A text that the column's character set does not have is equal to none, where MySQL refuses it; no index serves that."""

    def same(self, column: Column, value: str) -> str:
        """The condition of equality; texts are compared as utf8mb4."""
        text = column.source_type.partition("(")[0] in ("text", "character varying", "character")
        return super().same(column, f"CONVERT({value} USING utf8mb4)" if text else value)


MySqlStatements.dearer = _AnyText()


class MySqlConnection(Connection):
    """One MySQL server's sessions."""

    statements = MySqlStatements()

    def __init__(self, database: MySql) -> None:
        self._database = database

    @contextmanager
    def cursor(self) -> Iterator[Any]:
        """A cursor whose statements are committed one by one.

        Raises:
            DatabaseError: the driver is missing, or what the server says.
        """
        with pymysql_cursor("MySQL", self._database) as cursor:
            cursor.execute(_SETTINGS)
            yield cursor
