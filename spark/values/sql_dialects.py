"""SQL of the databases that are asked for rows: names, values, and the statements that read rows page by page, or hash them.

A page is the rows above the last key of the page before, `ORDER BY` the key, in whatever order the database has: nothing but the
reader of pages depends on it. The key's index serves it. There is no driver and no session here, only the text of statements:
MySQL's as PyMySQL takes it, SQL Server's as python-tds, Oracle's as oracledb.

A database that hashes its rows itself says the same as the text of a row does in Spark (spark.proof). A piece is a quoted column,
the SQL of its canonical form (spark.values.canonical_forms), and the same as arguments of concat().
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from spark.errors import JobRefusedError
from spark.table.identifiers import double_quote, quote, text_literal

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
        key_columns = columns[:keys]
        one = [
            " AND ".join(self.same(c, self.placeholder(k * keys + i + 1)) for i, c in enumerate(key_columns))
            for k in range(count)
        ]
        return f"{self._select(table, columns)} WHERE {' OR '.join(f'({condition})' for condition in one)}"

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
            JobRefusedError: a value of a type that is not written out.
        """
        names = [self.quote(c.name) for c in columns]
        conditions = [" AND ".join(f"{n} = {self._constant_of(v)}" for n, v in zip(names, key, strict=True)) for key in keys]
        return " OR ".join(f"({one})" for one in conditions)

    def _constant_of(self, value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, (int, Decimal, str)):
            raise JobRefusedError(f"a key with a value of {type(value).__name__} cannot be asked for in a snapshot's condition")
        return self.text_constant(value) if isinstance(value, str) else f"{value:f}" if isinstance(value, Decimal) else str(value)

    def _select(self, table: Table, columns: Sequence[Column]) -> str:
        return f"SELECT {', '.join(self.value(c) for c in columns)} FROM {self.name_in_query(*table)}"

    def _above(self, names: Sequence[str]) -> str:
        """Lexicographic, with each value bound where it stands: `(a > 1) OR (a = 2 AND b > 3)`."""
        number, alternatives = 0, []
        for count in range(1, len(names) + 1):
            parts = []
            for index, name in enumerate(names[:count]):
                number += 1
                parts.append(f"{name} {'>' if index == count - 1 else '='} {self.placeholder(number)}")
            alternatives.append(f"({' AND '.join(parts)})")
        return " OR ".join(alternatives)


# A share of so many is read without looking at more of a row than its key (RowText.share_sql). Prime: keys come in strides.
SHARES = 127
BUCKETS = 9 * SHARES
HASH_BITS = 60
Piece = tuple[str, str, tuple[str, ...]]


def measure(text: str) -> str:
    """A text preceded by its length in bytes (UTF-8), as canonical forms have it."""
    return f"{len(text.encode())}:{text}"


class HashingDialect(Dialect, ABC):
    """The SQL of a database whose rows are compared at one exact moment."""

    digest: str = "md5"
    """The hash function of rows and of bytes, as hashlib calls it: md5 or sha256."""
    whole: tuple[str, ...]
    """The types whose values are whole numbers of up to 63 bits and a sign."""

    @abstractmethod
    def text(self, pieces: Sequence[Piece]) -> str:
        """The forms, each ended by `;`; NULL is nothing."""

    @abstractmethod
    def hash(self, text: str) -> str:
        """60 bits of md5 as a number."""

    @abstractmethod
    def bucket_of_uuid(self, value: str) -> str | None:
        """One of its bytes; None where that is not cheap."""

    @abstractmethod
    def bucket_of_text(self, text: str) -> str:
        """By 28 bits of md5."""

    @abstractmethod
    def sort_key(self, column: Column) -> str | None:
        """What is compared of a key's column, so that it is Spark's order (key_order); None where none is known."""

    @abstractmethod
    def constant(self, column: Column, value: int | str) -> str:
        """A constant to compare it with."""

    @abstractmethod
    def between(self, values: Sequence[str], after: Sequence[str] | None, to: Sequence[str] | None) -> str:
        """That the values are, as a row, > `after` and <= `to`; `true` where both are None."""

    @abstractmethod
    def readable(self, column: Column) -> bool:
        """Whether its type reads the canonical text of a value as that value (own_order)."""

    def converts_in_list(self, column: Column) -> bool:
        """Whether a constant in a list of rows becomes the column's character set, as it does beside `=`."""
        return column.kind in ("", "utf8mb4")

    @abstractmethod
    def literal(self, column: Column, text: str) -> str:
        """The value with this text, as a constant that is compared as the column itself is."""


class MySqlDialect(Dialect):
    """Backticks, and texts by their bytes: whether a backslash is one depends on the session that reads it."""

    def quote(self, *parts: str) -> str:
        """The name in backticks; those within it are doubled."""
        return quote(*parts)

    def value(self, column: Column) -> str:
        """A FLOAT is written with six digits unless it is calculated with."""
        name = self.name_in_query(column.name)
        return f"{name} + 0e0" if column.source_type == "real" else name

    def text_constant(self, text: str) -> str:
        """By its bytes: NO_BACKSLASH_ESCAPES is the session's."""
        return f"_utf8mb4 X'{text.encode().hex()}'"


class _AnyText(MySqlDialect):
    """A text that the column's character set does not have is equal to none, where MySQL refuses it; no index serves that."""

    def same(self, column: Column, value: str) -> str:
        """The condition of equality; texts are compared as utf8mb4."""
        text = column.source_type.partition("(")[0] in ("text", "character varying", "character")
        return super().same(column, f"CONVERT({value} USING utf8mb4)" if text else value)


MySqlDialect.dearer = _AnyText()


class SqlServerDialect(Dialect):
    """Brackets, TOP and texts in Unicode."""

    def quote(self, *parts: str) -> str:
        """The name in brackets; a closing one within it is doubled."""
        return quote(*parts, sign="[")

    def name_in_query(self, *parts: str) -> str:
        """The driver takes `%` for a place of a value, but only in a statement with values."""
        if "%" in "".join(parts):
            raise JobRefusedError(f"{'.'.join(parts)}: a name with a percent sign cannot be asked for by python-tds")
        return self.quote(*parts)

    def limit(self, select: str, rows: int) -> str:
        """The SELECT with a TOP at its begin."""
        return f"SELECT TOP ({rows}) {select.removeprefix('SELECT ')}"

    def text_constant(self, text: str) -> str:
        """The text as a literal in Unicode: `N'…'`."""
        return "N" + super().text_constant(text)


class OracleDialect(Dialect):
    """Double quotes, `:1` and FETCH FIRST."""

    def quote(self, *parts: str) -> str:
        """Oracle's names hold no double quote."""
        if '"' in "".join(parts):
            raise JobRefusedError(f"{'.'.join(parts)}: Oracle has no names with a double quote")
        return super().quote(*parts)

    def name_in_query(self, *parts: str) -> str:
        """A percent sign is no place of a value here."""
        return self.quote(*parts)

    def placeholder(self, number: int) -> str:
        """Oracle's sign for a parameter, which are bound by number: `:1`."""
        return f":{number}"

    def limit(self, select: str, rows: int) -> str:
        """The SELECT with a FETCH FIRST at its end."""
        return f"{select} FETCH FIRST {rows} ROWS ONLY"

    def value(self, column: Column) -> str:
        """The thin driver drops the zone of a moment."""
        name = self.quote(column.name)
        return f"SYS_EXTRACT_UTC({name})" if column.source_type.endswith("with time zone") else name
