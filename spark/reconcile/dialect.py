"""Rows' texts, hashes and buckets in the SQL of the source's database; `row_text` does the same in Spark.

A piece is a quoted column and the SQL of its canonical form (spark.canonical).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from spark.canonical import mariadb

# A share of so many is read without looking at more of a row than its key (RowText.share_sql). Prime: keys come in strides.
SHARES = 127
BUCKETS = 9 * SHARES
HASH_BITS = 60
Piece = tuple[str, str]


class Dialect(Protocol):
    """One database's way to write it."""

    whole: tuple[str, ...]
    """The types whose values are whole numbers of up to 63 bits and a sign."""

    def quoted(self, name: str) -> str:
        """An identifier."""

    def text(self, pieces: Sequence[Piece]) -> str:
        """The forms, each ended by `;`; NULL is nothing."""

    def hash(self, text: str) -> str:
        """60 bits of md5 as a number."""

    def remainder(self, numbers: Sequence[str], divisor: int) -> str:
        """Of the sum of the numbers without their signs, whatever the sum would be."""

    def bucket_of_uuid(self, value: str) -> str | None:
        """One of its bytes; None where that is not cheap."""

    def bucket_of_text(self, text: str) -> str:
        """By 28 bits of md5."""


class PostgreSql:
    """concat() takes NULL for an empty text, and at most 100 arguments."""

    whole: tuple[str, ...] = ("smallint", "integer", "bigint")
    _arguments = 90

    def quoted(self, name: str) -> str:
        """An identifier."""
        return '"' + name.replace('"', '""') + '"'

    def text(self, pieces: Sequence[Piece]) -> str:
        """The forms, each ended by `;`."""
        parts = [part for _, piece in pieces for part in (piece, "';'")]
        chunks = [parts[i : i + self._arguments] for i in range(0, len(parts), self._arguments)]
        return " || ".join(f"concat({', '.join(chunk)})" for chunk in chunks)

    def hash(self, text: str) -> str:
        """60 bits of md5 as a number."""
        return f"('x' || left(md5({text}), 15))::bit({HASH_BITS})::bigint"

    def remainder(self, numbers: Sequence[str], divisor: int) -> str:
        """Without casts, and without a sum that could overflow."""
        found = [f"abs(mod({number}, {divisor}))" for number in numbers]
        return found[0] if len(found) == 1 else f"mod({' + '.join(found)}, {divisor})"

    def bucket_of_uuid(self, value: str) -> str | None:
        """Byte 5: random in version 4, milliseconds in 7, 0.4 ms in 6; in version 1 one value in seven minutes."""
        return f"get_byte(uuid_send({value}), 5)"

    def bucket_of_text(self, text: str) -> str:
        """By 28 bits of md5."""
        return f"mod(('x' || left(md5({text}), 7))::bit(28)::int, {BUCKETS})"


class MariaDb:
    """CONCAT() of a NULL is NULL, and so is a text longer than max_allowed_packet: that must not pass for a NULL."""

    whole = mariadb.WHOLE

    def quoted(self, name: str) -> str:
        """An identifier."""
        return "`" + name.replace("`", "``") + "`"

    def text(self, pieces: Sequence[Piece]) -> str:
        """The forms, each ended by `;`."""
        listed = ", ".join(f"IF({column} IS NULL, '', {piece}), ';'" for column, piece in pieces)
        return mariadb.utf8(f"CONCAT({listed})")

    def hash(self, text: str) -> str:
        """60 bits of md5 as a number; NULL where the text is longer than max_allowed_packet."""
        return f"CAST(CONV(LEFT(MD5({text}), 15), 16, 10) AS UNSIGNED)"

    def remainder(self, numbers: Sequence[str], divisor: int) -> str:
        """Of two and more as well: what is added is small, and never negative."""
        found = [f"ABS(MOD({number}, {divisor}))" for number in numbers]
        return found[0] if len(found) == 1 else f"MOD({' + '.join(found)}, {divisor})"

    def bucket_of_uuid(self, value: str) -> str | None:
        """Its bytes come as text only."""
        return None

    def bucket_of_text(self, text: str) -> str:
        """By 28 bits of md5."""
        return f"MOD(CAST(CONV(LEFT(MD5({text}), 7), 16, 10) AS UNSIGNED), {BUCKETS})"


DIALECTS: dict[str, Dialect] = {"postgresql": PostgreSql(), "mariadb": MariaDb()}
