"""What is said in one kind of database's way: names, values, and the statements that read its rows page by page.

A page is the rows above the last key of the page before, `ORDER BY` the key, in whatever order the database has: nothing but the
reader of pages depends on it. The key's index serves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from spark.delta.identifiers import double_quote, text_literal
from spark.errors import NotInSqlError

if TYPE_CHECKING:
    from spark.specs import Column

Table = tuple[str, str]
"""Schema and name."""


class Dialect:
    """One kind's SQL, here the standard's. Values are bound; only `condition` writes them out."""

    dearer: Dialect | None = None
    """Another way to ask for `rows_of`, where the first may refuse a value."""

    def quote(self, *parts: str) -> str:
        """The name as a quoted identifier, whatever is in its parts."""
        return double_quote(*parts)

    def name_in_query(self, *parts: str) -> str:
        """The same in a statement with bound values: the drivers take `%` for the place of one."""
        return self.quote(*parts).replace("%", "%%")

    def placeholder(self, number: int) -> str:
        """The place of the value with this number (from 1)."""
        return "%s"

    def limit(self, select: str, rows: int) -> str:
        """`SELECT {columns} FROM ... ORDER BY ...`, its first rows only."""
        return f"{select} LIMIT {rows}"

    def value(self, column: Column) -> str:
        """A column as it is selected."""
        return self.name_in_query(column.name)

    def same(self, column: Column, value: str) -> str:
        """That a column of the key has a value."""
        return f"{self.name_in_query(column.name)} = {value}"

    def text_constant(self, text: str) -> str:
        """A text whose characters no session takes for SQL, whatever its settings say of a backslash."""
        return text_literal(text)

    def page(self, table: Table, columns: Sequence[Column], keys: int, *, rows: int, first: bool) -> str:
        """The next rows; values: `above` of the last key, where it is not the first page."""
        names = [self.name_in_query(c.name) for c in columns[:keys]]
        where = "" if first else f" WHERE {self._above(names)}"
        return self.limit(f"{self._select(table, columns)}{where} ORDER BY {', '.join(names)}", rows)

    def above(self, key: Sequence[Any]) -> list[Any]:
        """The values of `page`, in their order: a, a, b, a, b, c, ..."""
        return [value for count in range(1, len(key) + 1) for value in key[:count]]

    def rows_of(self, table: Table, columns: Sequence[Column], keys: int, count: int) -> str:
        """The rows of so many keys; values: each key's."""
        asked = columns[:keys]
        one = [" AND ".join(self.same(c, self.placeholder(k * keys + i + 1)) for i, c in enumerate(asked)) for k in range(count)]
        return f"{self._select(table, columns)} WHERE {' OR '.join(f'({each})' for each in one)}"

    def mark(self, table: Table) -> tuple[str, str]:
        """Adds a row, and takes away all others; each with the row's id as its value."""
        name, column, value = self.name_in_query(*table), self.name_in_query("id"), self.placeholder(1)
        return f"INSERT INTO {name} ({column}) VALUES ({value})", f"DELETE FROM {name} WHERE {column} <> {value}"

    def signal(self, table: Table) -> str:
        """Adds a signal; values: id, type, data."""
        columns = ", ".join(self.name_in_query(name) for name in ("id", "type", "data"))
        return f"INSERT INTO {self.name_in_query(*table)} ({columns}) VALUES ({', '.join(map(self.placeholder, (1, 2, 3)))})"

    def unsignal(self, table: Table, *, one: bool) -> str:
        """Takes away all signals, or `one`; value: its id."""
        where = f" WHERE {self.name_in_query('id')} = {self.placeholder(1)}" if one else ""
        return f"DELETE FROM {self.name_in_query(*table)}{where}"

    def condition(self, columns: Sequence[Column], keys: Sequence[Sequence[Any]]) -> str:
        """`(a = 1 AND b = 'x') OR (…)`: a text that the connector runs, so its values are written out.

        Raises:
            NotInSqlError: a value of a type that is not written out.
        """
        names = [self.quote(c.name) for c in columns]
        each = [" AND ".join(f"{n} = {self._constant_of(v)}" for n, v in zip(names, key, strict=True)) for key in keys]
        return " OR ".join(f"({one})" for one in each)

    def _constant_of(self, value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, (int, Decimal, str)):
            raise NotInSqlError(f"a key with a value of {type(value).__name__} cannot be asked for in a snapshot's condition")
        return self.text_constant(value) if isinstance(value, str) else f"{value:f}" if isinstance(value, Decimal) else str(value)

    def _select(self, table: Table, columns: Sequence[Column]) -> str:
        return f"SELECT {', '.join(self.value(c) for c in columns)} FROM {self.name_in_query(*table)}"

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
