"""Keys whose order is the same in the source's SQL and in Spark, and ranges of them.

    whole number   as a number, on both sides
    uuid           by its bytes: PostgreSQL compares them so, and so the lower-case text that silver holds
    text           by its bytes in UTF-8: COLLATE "C" in PostgreSQL, utf8mb4_nopad_bin in MariaDB, what Spark compares

A key of several columns is ordered by the first, then the second. Of other types (numeric and floats with NaN and -0, infinite
timestamps, citext, character(n), domains, enums) nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark.delta.conditions import any_of
from spark.errors import NotComparableError
from spark.silver.changes import slot
from spark.specs import Column

if TYPE_CHECKING:
    from spark.dialects.hashing import HashingDialect

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
    """The order of a table's key. `places` are its columns' places in the spec."""

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
            return upto | any_of([sf.col(slot(place)).isNull() for place in self.places])
        return self._above(keys.after) & upto

    def end(self, rows: DataFrame, after: Bound | None, count: int) -> Bound | None:
        """The last key of the next range of about `count` of these rows above `after`; None: what is left is fewer."""
        columns = [sf.col(slot(place)) for place in self.places]
        return about(rows.where(self.lake(KeyRange(self.names, after))).select(*columns), count)

    def _above(self, bound: Bound) -> Expression:
        """Lexicographic; the first column's own bound is said apart, for the statistics of files and row groups."""
        pairs = [(sf.col(slot(place)), sf.lit(value)) for place, value in zip(self.places, bound, strict=True)]
        (first, value), *_ = pairs
        above = reduce(lambda rest, pair: (pair[0] > pair[1]) | ((pair[0] == pair[1]) & rest), reversed(pairs), sf.lit(False))
        return (first >= value) & above if len(pairs) > 1 else above

    def _same(self, keys: KeyRange) -> None:
        if keys.columns != self.names:
            raise NotComparableError(f"the key is {', '.join(self.names)} now, and was {', '.join(keys.columns)}: run it again")


def about(keys: DataFrame, count: int) -> Bound | None:
    """The last of the first `count` of these keys in their order, or so; None: there are fewer."""
    rate = min(1.0, SAMPLE / count)
    sampled = keys if rate == 1.0 else keys.sample(rate)
    wanted = max(1, round(count * rate))
    first = sampled.dropna().orderBy(*keys.columns).limit(wanted + 1).collect()
    return tuple(first[wanted - 1]) if len(first) > wanted else None


def key_order(columns: Sequence[Column], keys: Sequence[str], dialect: HashingDialect) -> KeyOrder | None:
    """Of a key without NULLs, of types that both sides order alike; else None."""
    at = {c.name: i for i, c in enumerate(columns)}
    found = tuple(columns[at[key]] for key in keys)
    if not found or any(c.nullable or dialect.sort_key(c) is None for c in found):
        return None
    return KeyOrder(found, tuple(at[key] for key in keys), dialect)
