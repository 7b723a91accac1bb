"""PostgreSQL's SQL."""

from __future__ import annotations

import re
from collections.abc import Sequence

from spark.delta.identifiers import text_literal
from spark.dialects.hashing import BUCKETS, HASH_BITS, HashingDialect, Piece
from spark.specs import Column
from spark.types.rule import SourceType


class PostgreSqlDialect(HashingDialect):
    """concat() takes NULL for an empty text, and at most 100 arguments."""

    whole: tuple[str, ...] = ("smallint", "integer", "bigint")
    _arguments = 90
    _readable = (
        *(*whole, "oid", "numeric", "boolean", "text", "character varying", "character", "uuid", "date"),
        *("timestamp without time zone", "timestamp with time zone", "time without time zone"),
    )

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
