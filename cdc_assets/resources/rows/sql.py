"""Pages of a table by SQL: what is said in one kind's way (`Statements`), and how it is asked for (`SqlReader`).

A page is the rows above the last key of the page before, `ORDER BY` the key, in whatever order the database has: nothing but this
reader depends on it. The key's index serves it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from cdc_assets.errors import DatabaseError
from cdc_assets.registry.identifiers import TableId
from cdc_assets.resources.rows.paged import PAGE, Values
from spark.delta.identifiers import text_literal

if TYPE_CHECKING:
    from spark.specs import Column


class Statements(ABC):
    """One kind's SQL. Values are never in it: they are bound."""

    dearer: Statements | None = None
    """Another way to ask for `rows_of`, where the first may refuse a value."""

    @abstractmethod
    def quote(self, name: str) -> str:
        """The name as a quoted identifier."""

    @abstractmethod
    def placeholder(self, number: int) -> str:
        """The place of the value with this number (from 1)."""

    @abstractmethod
    def limit(self, select: str, rows: int) -> str:
        """`SELECT {columns} FROM ... ORDER BY ...`, its first rows only."""

    def value(self, column: Column) -> str:
        """A column as it is selected."""
        return self.quote(column.name)

    def quote_table(self, table: TableId) -> str:
        """The table as a quoted identifier, with its schema."""
        return f"{self.quote(table.schema)}.{self.quote(table.table)}"

    def page(self, table: TableId, columns: Sequence[Column], keys: int, *, first: bool) -> str:
        """The next rows; values: `above` of the last key, where it is not the first page."""
        names = [self.quote(c.name) for c in columns[:keys]]
        where = "" if first else f" WHERE {self._above(names)}"
        return self.limit(f"{self._select(table, columns)}{where} ORDER BY {', '.join(names)}", PAGE)

    def above(self, key: Values) -> list[Any]:
        """The values of `page`, in their order: a, a, b, a, b, c, ..."""
        return [value for count in range(1, len(key) + 1) for value in key[:count]]

    def rows_of(self, table: TableId, columns: Sequence[Column], keys: int, count: int) -> str:
        """The rows of so many keys; values: each key's."""
        asked = columns[:keys]
        one = [" AND ".join(self.same(c, self.placeholder(k * keys + i + 1)) for i, c in enumerate(asked)) for k in range(count)]
        return f"{self._select(table, columns)} WHERE {' OR '.join(f'({each})' for each in one)}"

    def same(self, column: Column, value: str) -> str:
        """That a column of the key has a value."""
        return f"{self.quote(column.name)} = {value}"

    def mark(self, table: TableId) -> tuple[str, str]:
        """Adds a row, and takes away all others; each with the row's id as its value."""
        name, column = self.quote_table(table), self.quote("id")
        return (
            f"INSERT INTO {name} ({column}) VALUES ({self.placeholder(1)})",
            f"DELETE FROM {name} WHERE {column} <> {self.placeholder(1)}",
        )

    def signal(self, table: TableId) -> str:
        """Adds a signal; values: id, type, data."""
        columns = ", ".join(self.quote(name) for name in ("id", "type", "data"))
        return f"INSERT INTO {self.quote_table(table)} ({columns}) VALUES ({', '.join(self.placeholder(i) for i in (1, 2, 3))})"

    def condition(self, columns: Sequence[Column], keys: Sequence[Values]) -> str:
        """`(a = 1 AND b = 'x') OR (…)`: a text that the connector runs, so its values are written out.

        Raises:
            DatabaseError: a value of a type that is not written out.
        """
        names = [self.plain(c.name) for c in columns]
        each = [" AND ".join(f"{n} = {self.literal(v)}" for n, v in zip(names, key, strict=True)) for key in keys]
        return " OR ".join(f"({one})" for one in each)

    def plain(self, name: str) -> str:
        """An identifier in a text that no driver looks into."""
        return self.quote(name)

    def literal(self, value: Any) -> str:
        """A whole number, a decimal or a text."""
        if isinstance(value, bool) or not isinstance(value, (int, Decimal, str)):
            raise DatabaseError(f"a key with a value of {type(value).__name__} cannot be asked for in a snapshot's condition")
        return self.text_literal(value) if isinstance(value, str) else f"{value:f}" if isinstance(value, Decimal) else str(value)

    def text_literal(self, text: str) -> str:
        """The text as a literal, its quotes doubled."""
        return text_literal(text)

    def _select(self, table: TableId, columns: Sequence[Column]) -> str:
        return f"SELECT {', '.join(self.value(c) for c in columns)} FROM {self.quote_table(table)}"

    def _above(self, names: Sequence[str]) -> str:
        """Lexicographic, with each value bound where it stands: `(a > 1) OR (a = 2 AND b > 3)`."""
        number, found = 0, []
        for count in range(1, len(names) + 1):
            parts = []
            for place, name in enumerate(names[:count]):
                number += 1
                parts.append(f"{name} {'>' if place == count - 1 else '='} {self.placeholder(number)}")
            found.append(f"({' AND '.join(parts)})")
        return " OR ".join(found)


class Connection(ABC):
    """How one server is reached, and what its driver's values are here."""

    statements: Statements

    @abstractmethod
    def cursor(self) -> AbstractContextManager[Any]:
        """A cursor whose statements are committed one by one; the driver's errors are DatabaseErrors."""

    def normalize(self, value: Any) -> Any:
        """A driver's value, as `texts` knows it."""
        return value


@dataclass(frozen=True)
class SqlReader:
    """Rows of one server (paged.RowReader)."""

    server: Connection

    def pages(self, table: TableId, columns: Sequence[Column], keys: int) -> Iterator[Sequence[Values]]:
        """All rows in pages, by ascending key (the first `keys` columns)."""
        statements, last = self.server.statements, None
        with self.server.cursor() as cursor:
            while True:
                query = statements.page(table, columns, keys, first=last is None)
                rows = self._ask(cursor, query, statements.above(last) if last is not None else [])
                yield [tuple(map(self.server.normalize, row)) for row in rows]
                if len(rows) < PAGE:
                    return
                last = tuple(rows[-1][:keys])
                if None in last:
                    raise DatabaseError(f"{table}: a row has NULL in its key, which is declared as not null")

    def rows_of(self, table: TableId, columns: Sequence[Column], keys: Sequence[Values]) -> Sequence[Values]:
        """At least the rows of these keys."""
        if not keys:
            return []
        statements = self.server.statements
        try:
            return self._rows_of(statements, table, columns, keys)
        except DatabaseError:
            if statements.dearer is None:
                raise
            return self._rows_of(statements.dearer, table, columns, keys)

    def _rows_of(
        self, statements: Statements, table: TableId, columns: Sequence[Column], keys: Sequence[Values]
    ) -> Sequence[Values]:
        query = statements.rows_of(table, columns, len(keys[0]), len(keys))
        with self.server.cursor() as cursor:
            rows = self._ask(cursor, query, [value for key in keys for value in key])
        return [tuple(map(self.server.normalize, row)) for row in rows]

    def mark(self, table: TableId, marker: str) -> None:
        """Commit a row with this id to the marker table, and take away older ones."""
        with self.server.cursor() as cursor:
            for statement in self.server.statements.mark(table):
                cursor.execute(statement, [marker])

    def condition(self, columns: Sequence[Column], keys: Sequence[Values]) -> str:
        """These keys as a condition."""
        return self.server.statements.condition(columns, keys)

    def signal(self, table: TableId, signal: str, kind: str, data: str) -> None:
        """Commit a signal for the connector."""
        with self.server.cursor() as cursor:
            cursor.execute(self.server.statements.signal(table), [signal, kind, data])

    def _ask(self, cursor: Any, query: str, values: list[Any]) -> list[Any]:
        cursor.execute(query, values)
        return list(cursor.fetchall())
