"""What a database's SQL must say so that it hashes its rows itself; `spark.reconcile.row_text` does the same in Spark.

A piece is a quoted column, the SQL of its canonical form (spark.canonical), and the same as arguments of concat().
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spark.dialects.dialect import Dialect

if TYPE_CHECKING:
    from spark.specs import Column

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
