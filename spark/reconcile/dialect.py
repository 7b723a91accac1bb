"""Rows' texts, hashes and buckets in the SQL of the source's database; `row_text` does the same in Spark.

A piece is a quoted column, the SQL of its canonical form (spark.canonical), and the same as arguments of concat().
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Protocol

from spark.canonical import mariadb
from spark.delta.identifiers import double_quote, quote, text_literal
from spark.specs import Column
from spark.types.rule import SourceType

# A share of so many is read without looking at more of a row than its key (RowText.share_sql). Prime: keys come in strides.
SHARES = 127
BUCKETS = 9 * SHARES
HASH_BITS = 60
Piece = tuple[str, str, tuple[str, ...]]


class Dialect(Protocol):
    """One database's way to write it."""

    whole: tuple[str, ...]
    """The types whose values are whole numbers of up to 63 bits and a sign."""

    def quote(self, name: str) -> str:
        """The name as a quoted identifier."""

    def text(self, pieces: Sequence[Piece]) -> str:
        """The forms, each ended by `;`; NULL is nothing."""

    def hash(self, text: str) -> str:
        """60 bits of md5 as a number."""

    def bucket_of_uuid(self, value: str) -> str | None:
        """One of its bytes; None where that is not cheap."""

    def bucket_of_text(self, text: str) -> str:
        """By 28 bits of md5."""

    def sort_key(self, column: Column) -> str | None:
        """What is compared of a key's column, so that it is Spark's order (key_order); None where none is known."""

    def constant(self, column: Column, value: int | str) -> str:
        """A constant to compare it with."""

    def between(self, values: Sequence[str], after: Sequence[str] | None, to: Sequence[str] | None) -> str:
        """That the values are, as a row, > `after` and <= `to`; `true` where both are None."""

    def readable(self, column: Column) -> bool:
        """Whether its type reads the canonical text of a value as that value (own_order)."""

    def literal(self, column: Column, text: str) -> str:
        """The value with this text, as a constant that is compared as the column itself is."""

    def text_constant(self, text: str) -> str:
        """A text whose characters no session takes for SQL, whatever its settings say of a backslash."""


class PostgreSqlDialect:
    """concat() takes NULL for an empty text, and at most 100 arguments."""

    whole: tuple[str, ...] = ("smallint", "integer", "bigint")
    _arguments = 90
    _readable = (
        *(*whole, "oid", "numeric", "boolean", "text", "character varying", "character", "uuid", "date"),
        *("timestamp without time zone", "timestamp with time zone", "time without time zone"),
    )

    def quote(self, name: str) -> str:
        """The name in double quotes; those within it are doubled."""
        return double_quote(name)

    def text(self, pieces: Sequence[Piece]) -> str:
        """The forms, each ended by `;`."""
        parts = [part for _, _, arguments in pieces for part in (*arguments, "';'")]
        chunks = [parts[i : i + self._arguments] for i in range(0, len(parts), self._arguments)]
        return " || ".join(f"concat({', '.join(chunk)})" for chunk in chunks)

    def hash(self, text: str) -> str:
        """60 bits of md5 as a number."""
        return f"('x' || left(md5({text}), 15))::bit({HASH_BITS})::bigint"

    def bucket_of_uuid(self, value: str) -> str | None:
        """Byte 5: random in version 4, milliseconds in 7, 0.4 ms in 6; in version 1 one value in seven minutes."""
        return f"get_byte(uuid_send({value}), 5)"

    def bucket_of_text(self, text: str) -> str:
        """By 28 bits of md5."""
        return f"mod(('x' || left(md5({text}), 7))::bit(28)::int, {BUCKETS})"

    def sort_key(self, column: Column) -> str | None:
        """Of PostgreSQL's own types only; the database stores UTF-8, whose bytes COLLATE "C" compares."""
        name = "" if column.kind else re.sub(r"\(\d+\)$", "", column.source_type)
        if name in (*self.whole, "uuid"):
            return self.quote(column.name)
        return f'{self.quote(column.name)} COLLATE "C"' if name in ("text", "character varying") else None

    def constant(self, column: Column, value: int | str) -> str:
        """A text's quotes are doubled, and standard_conforming_strings is on (`postgresql_cut`).

        A number is a bigint, which the indexes of all whole numbers know; -2^63 written plainly would be numeric.
        """
        if isinstance(value, int):
            return f"'{value}'::bigint"
        text = text_literal(value)
        return f"{text}::uuid" if column.source_type == "uuid" else text

    def between(self, values: Sequence[str], after: Sequence[str] | None, to: Sequence[str] | None) -> str:
        """Row comparisons, which an index on these columns serves."""
        row = ", ".join(values)
        signs = [f"({row}) {sign} ({', '.join(bound)})" for sign, bound in ((">", after), ("<=", to)) if bound is not None]
        return " AND ".join(signs) or "true"

    def readable(self, column: Column) -> bool:
        """Types whose text is that of their output function, in UTC."""
        source = SourceType.parse(column.source_type, column.kind)
        if source is None or source.array:
            return False
        if column.kind in ("", "base"):
            return source.bare == "citext" if column.kind else source.name in self._readable
        return column.kind == "enum"

    def literal(self, column: Column, text: str) -> str:
        """Of no type, so that it becomes the column's, with the column's collation."""
        return text_literal(text)

    def text_constant(self, text: str) -> str:
        """By its bytes: standard_conforming_strings is the session's."""
        return f"convert_from(decode('{text.encode().hex()}', 'hex'), 'UTF8')"


class MariaDbDialect:
    """CONCAT() of a NULL is NULL, and so is a text longer than max_allowed_packet: that must not pass for a NULL."""

    whole = mariadb.WHOLE
    _numeric = ("bigint unsigned", "decimal", "decimal unsigned")
    _readable = (*whole, *_numeric, "date", "datetime", "timestamp", "time", "char", "varchar", "uuid")

    def quote(self, name: str) -> str:
        """The name in backticks; those within it are doubled."""
        return quote(name)

    def text(self, pieces: Sequence[Piece]) -> str:
        """The forms, each ended by `;`."""
        listed = ", ".join(f"IF({column} IS NULL, '', {piece}), ';'" for column, piece, _ in pieces)
        return mariadb.utf8(f"CONCAT({listed})")

    def hash(self, text: str) -> str:
        """60 bits of md5 as a number; NULL where the text is longer than max_allowed_packet."""
        return f"CAST(CONV(LEFT(MD5({text}), 15), 16, 10) AS UNSIGNED)"

    def bucket_of_uuid(self, value: str) -> str | None:
        """Its bytes come as text only."""
        return None

    def bucket_of_text(self, text: str) -> str:
        """By 28 bits of md5."""
        return f"MOD(CAST(CONV(LEFT(MD5({text}), 7), 16, 10) AS UNSIGNED), {BUCKETS})"

    def sort_key(self, column: Column) -> str | None:
        """Texts by their code points, without padding; uuids as bytes: their own order swaps parts, and versions changed it."""
        name = mariadb.type_name(column)
        if name in self.whole:
            return self.quote(column.name)
        if name == "uuid":
            return f"CAST({self.quote(column.name)} AS BINARY(16))"
        if name not in ("char", "varchar"):
            return None
        text = self.quote(column.name) if column.kind == "utf8mb4" else f"CONVERT({self.quote(column.name)} USING utf8mb4)"
        return f"{text} COLLATE utf8mb4_nopad_bin"

    def constant(self, column: Column, value: int | str) -> str:
        """Bytes in hexadecimal, so that no character of a key is one of SQL."""
        if isinstance(value, int):
            return str(value)
        if mariadb.type_name(column) == "uuid":
            return f"X'{value.replace('-', '')}'"
        return f"{_hexadecimal(value)} COLLATE utf8mb4_nopad_bin"

    def between(self, values: Sequence[str], after: Sequence[str] | None, to: Sequence[str] | None) -> str:
        """Written out: of a row comparison no index would be used. BETWEEN looks at a text or a uuid once, not twice."""
        parts = [f"{values[0]} BETWEEN {after[0]} AND {to[0]}"] if after and to else []
        parts += [self._beyond(values, ">", after)] if after else []
        parts += [self._beyond(values, "<=", to)] if to else []
        return " AND ".join(parts) or "true"

    def readable(self, column: Column) -> bool:
        """Enums and sets are ordered by their numbers, but compared with a text as texts: those are not."""
        return mariadb.type_name(column) in self._readable

    def literal(self, column: Column, text: str) -> str:
        """A text is converted to the column's character set, and compared in its collation: that of a constant is weaker."""
        if mariadb.type_name(column) not in (*self.whole, *self._numeric):
            return _hexadecimal(text)
        # Java writes a small decimal as 1E-10, which would be a double here.
        return format(Decimal(text), "f")

    def text_constant(self, text: str) -> str:
        """By its bytes: NO_BACKSLASH_ESCAPES is the session's."""
        return _hexadecimal(text)

    def _beyond(self, values: Sequence[str], sign: str, bounds: Sequence[str]) -> str:
        strict = sign.rstrip("=")
        found = f"{values[-1]} {sign} {bounds[-1]}"
        for value, bound in zip(reversed(values[:-1]), reversed(bounds[:-1]), strict=True):
            found = f"({value} {strict} {bound} OR ({value} = {bound} AND {found}))"
        return f"{values[0]} {strict}= {bounds[0]} AND {found}" if len(values) > 1 else found


def _hexadecimal(text: str) -> str:
    return f"_utf8mb4 X'{text.encode().hex()}'"


DIALECTS: dict[str, Dialect] = {"postgresql": PostgreSqlDialect(), "mariadb": MariaDbDialect()}
