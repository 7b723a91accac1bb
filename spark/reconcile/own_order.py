"""Keys that each side takes in an order of its own, where no order is known on both.

    source   by its primary-key index, whatever that compares by: a collation, a calendar, the digits of a decimal
    lake     by the bytes of the key's canonical text (row_text)

Each range is one of values, so that a key that stays lies in exactly one range of a round of each order. The rows of the first
show what silver has not or has otherwise; the keys of the second, looked up at the source, what silver has too much.

A key's column is asked for by its canonical text, so it must be of a type that reads that text as the same value
(`HashingDialect.readable`): not binary strings, floats and bits, whose text is another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark.reconcile.key_order import KeyRange
from spark.specs import Column

if TYPE_CHECKING:
    from spark.dialects.hashing import HashingDialect


@dataclass(frozen=True)
class TwoRanges:
    """What one run compares: keys in the source's own order, and keys in that of silver's texts (`lake`: one text a bound)."""

    source: KeyRange
    lake: KeyRange

    @property
    def text(self) -> str:
        """Both ranges in words, for messages."""
        return f"the source's {self.source.text} in its own order; silver's {self.lake.text} by their bytes"


@dataclass(frozen=True)
class OwnOrder:
    """The order of the source's primary-key index; values are canonical texts without their length (Form.shown)."""

    columns: tuple[Column, ...]
    dialect: HashingDialect

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the key's columns, in the key's order."""
        return tuple(c.name for c in self.columns)

    @property
    def declared(self) -> tuple[str, ...]:
        """The same with their types: of another type the order is another, and a place in it says nothing."""
        return tuple(f"{c.name} {c.source_type}" for c in self.columns)

    def sql(self, keys: KeyRange) -> str:
        """The condition of a range."""
        quoted = [self.dialect.quote(name) for name in self.names]
        return self.dialect.between(quoted, self._literals(keys.after), self._literals(keys.to))

    def one_of(self, keys: Sequence[Sequence[str]]) -> str:
        """That a row's key is one of these (MariaDB, MySQL).

        A list costs half of conditions joined by OR; but the texts of a list of rows are not converted to the column's character
        set (10.11: a `ž` of latin2 is not found), as those of `=` are.
        """
        found = [self._literals(key) or [] for key in keys]
        if all(map(self.dialect.converts_in_list, self.columns)):
            return f"({self.listed}) IN ({', '.join('(' + ', '.join(values) + ')' for values in found)})"
        quoted = [self.dialect.quote(name) for name in self.names]
        same = [" AND ".join(f"{name} = {value}" for name, value in zip(quoted, values, strict=True)) for values in found]
        return " OR ".join(f"({condition})" for condition in same)

    @property
    def listed(self) -> str:
        """The columns, as ORDER BY takes them."""
        return ", ".join(self.dialect.quote(name) for name in self.names)

    def columns_of(self, rows: str) -> str:
        """The same of the rows that a statement calls so: a bare name may be that of what is selected."""
        return ", ".join(f"{rows}.{self.dialect.quote(name)}" for name in self.names)

    def _literals(self, values: Sequence[int | str] | None) -> list[str] | None:
        if values is None:
            return None
        return [self.dialect.literal(column, str(value)) for column, value in zip(self.columns, values, strict=True)]


def own_order(columns: Sequence[Column], keys: Sequence[str], dialect: HashingDialect) -> OwnOrder | None:
    """Of a key without NULLs whose columns can all be asked for by their texts; else None."""
    at = {c.name: c for c in columns}
    found = tuple(at[key] for key in keys)
    if not found or any(c.nullable or not dialect.readable(c) for c in found):
        return None
    return OwnOrder(found, dialect)
