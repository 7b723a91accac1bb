"""The order of a table's keys, and ranges of them: one order that the source's SQL and Spark share, or one of each
side's own.

Whole numbers, uuids and texts are in the same order on both sides; of other types nothing is claimed. Those are taken
twice, by the source's primary-key index and by the bytes of the canonical text in the lake: the first ranges show
what silver lacks or has otherwise, the second what it has too much. A key that may be NULL, or that cannot be asked
for by its text (binary strings, floats, bits), has no such order.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark.errors import JobRefusedError
from spark.silver.typed_changes import slot
from spark.specs import Column
from spark.table.spark_plans import any_of

if TYPE_CHECKING:
    from spark.values.sql_dialects import HashingDialect

Bound = tuple[int | str, ...]
# A range's end is found in a sample of this many keys of it, so that a driver's memory does not grow with the table: 3 % off.
SAMPLE = 1000


@dataclass(frozen=True)
class KeyRange:
    """The keys above `after`, up to and with `to`, in the order of these columns; None: open on that side."""

    columns: tuple[str, ...]
    after: Bound | None = None
    to: Bound | None = None

    @property
    def text(self) -> str:
        """The range in words, for messages."""
        parts = [f"{sign} {', '.join(map(str, bound))}" for sign, bound in ((">", self.after), ("<=", self.to)) if bound]
        return f"keys {' and '.join(parts)}" if parts else "all keys"


@dataclass(frozen=True)
class KeyOrder:
    """The order of a table's key. `places` are its columns' places in the spec.

        whole number   as a number, on both sides
        uuid           by its bytes: PostgreSQL compares them so, and so the lower-case text that silver holds
        text           by its bytes in UTF-8: COLLATE "C" in PostgreSQL, utf8mb4_nopad_bin in MariaDB, what Spark compares

    A key of several columns is ordered by the first, then the second. Of other types (numeric and floats with NaN and
    -0, infinite timestamps, citext, character(n), domains, enums) nothing is claimed.
    """

    columns: tuple[Column, ...]
    places: tuple[int, ...]
    dialect: HashingDialect

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the key's columns, in the key's order."""
        return tuple(c.name for c in self.columns)

    # -- the database ----------------------------------------------------------------------------------------------

    def sql(self, keys: KeyRange, own: Collection[str] = ()) -> str:
        """The condition of a range; columns of `own` have this order by themselves, so that their index serves it."""
        self._same(keys)
        quoted = self.dialect.quote
        ordered = [quoted(c.name) if c.name in own else self.dialect.sort_key(c) or quoted(c.name) for c in self.columns]
        return self.dialect.between(ordered, self._constants(keys.after), self._constants(keys.to))

    def _constants(self, bound: Bound | None) -> list[str] | None:
        return None if bound is None else [self.dialect.constant(*pair) for pair in zip(self.columns, bound, strict=True)]

    def by_index(self, own: Collection[str] = ()) -> bool:
        """Whether the index of these columns serves the condition; `own` as in `sql`."""
        return all(c.name in own or self.dialect.sort_key(c) == self.dialect.quote(c.name) for c in self.columns)

    # -- Spark ---------------------------------------------------------------------------------------------------

    def lake(self, keys: KeyRange) -> Expression:
        """The condition of a range. A key of silver with a NULL, which no source has, is in the first one."""
        self._same(keys)
        upto = ~self._above(keys.to) if keys.to is not None else sf.lit(True)
        if keys.after is None:
            return upto | any_of([sf.col(slot(index)).isNull() for index in self.places])
        return self._above(keys.after) & upto

    def end(self, rows: DataFrame, after: Bound | None, count: int) -> Bound | None:
        """The last key of the next range of about `count` of these rows above `after`; None: what is left is fewer."""
        columns = [sf.col(slot(index)) for index in self.places]
        return about(rows.where(self.lake(KeyRange(self.names, after))).select(*columns), count)

    def _above(self, bound: Bound) -> Expression:
        """Lexicographic; the first column's own bound is said apart, for the statistics of files and row groups."""
        pairs = [(sf.col(slot(index)), sf.lit(value)) for index, value in zip(self.places, bound, strict=True)]
        (first, value), *_ = pairs
        above = reduce(lambda rest, pair: (pair[0] > pair[1]) | ((pair[0] == pair[1]) & rest), reversed(pairs), sf.lit(False))
        return (first >= value) & above if len(pairs) > 1 else above

    def _same(self, keys: KeyRange) -> None:
        if keys.columns != self.names:
            raise JobRefusedError(f"the key is {', '.join(self.names)} now, and was {', '.join(keys.columns)}: run it again")


def about(keys: DataFrame, count: int) -> Bound | None:
    """The last of the first `count` of these keys in their order, or so; None: there are fewer."""
    rate = min(1.0, SAMPLE / count)
    sampled = keys if rate == 1.0 else keys.sample(rate)
    rank = max(1, round(count * rate))
    first = sampled.dropna().orderBy(*keys.columns).limit(rank + 1).collect()
    return tuple(first[rank - 1]) if len(first) > rank else None


def key_order(columns: Sequence[Column], keys: Sequence[str], dialect: HashingDialect) -> KeyOrder | None:
    """Of a key without NULLs, of types that both sides order alike; else None."""
    at = {c.name: i for i, c in enumerate(columns)}
    key_columns = tuple(columns[at[key]] for key in keys)
    if not key_columns or any(c.nullable or dialect.sort_key(c) is None for c in key_columns):
        return None
    return KeyOrder(key_columns, tuple(at[key] for key in keys), dialect)


@dataclass(frozen=True)
class TwoRanges:
    """What one run compares: keys in the source's own order, and keys in that of silver's texts (`lake`: one text a bound).

        source   by its primary-key index, whatever that compares by: a collation, a calendar, the digits of a decimal
        lake     by the bytes of the key's canonical text (row_text)

    Each range is one of values, so that a key that stays lies in exactly one range of a round of each order. The rows
    of the first show what silver has not or has otherwise; the keys of the second, looked up at the source, what silver
    has too much.

    A key's column is asked for by its canonical text, so it must be of a type that reads that text as the same value
    (`HashingDialect.readable`): not binary strings, floats and bits, whose text is another.
    """

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
        literals = [self._literals(key) or [] for key in keys]
        if all(map(self.dialect.converts_in_list, self.columns)):
            return f"({self.listed}) IN ({', '.join('(' + ', '.join(values) + ')' for values in literals)})"
        quoted = [self.dialect.quote(name) for name in self.names]
        same = [" AND ".join(f"{name} = {value}" for name, value in zip(quoted, values, strict=True)) for values in literals]
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
    key_columns = tuple(at[key] for key in keys)
    if not key_columns or any(c.nullable or not dialect.readable(c) for c in key_columns):
        return None
    return OwnOrder(key_columns, dialect)
