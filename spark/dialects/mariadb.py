"""MariaDB's SQL: MySQL's, and what its rows are hashed by."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from spark.canonical import mariadb
from spark.dialects.hashing import BUCKETS, HashingDialect, Piece
from spark.dialects.mysql import MySqlDialect
from spark.specs import Column


class MariaDbDialect(MySqlDialect, HashingDialect):
    """CONCAT() of a NULL is NULL, and so is a text longer than max_allowed_packet: that must not pass for a NULL."""

    whole = mariadb.WHOLE
    _numeric = ("bigint unsigned", "decimal", "decimal unsigned")
    _readable = (*whole, *_numeric, "date", "datetime", "timestamp", "time", "char", "varchar", "uuid")

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
        return f"{self.text_constant(value)} COLLATE utf8mb4_nopad_bin"

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
            return self.text_constant(text)
        # Java writes a small decimal as 1E-10, which would be a double here.
        return format(Decimal(text), "f")

    def _beyond(self, values: Sequence[str], sign: str, bounds: Sequence[str]) -> str:
        strict = sign.rstrip("=")
        found = f"{values[-1]} {sign} {bounds[-1]}"
        for value, bound in zip(reversed(values[:-1]), reversed(bounds[:-1]), strict=True):
            found = f"({value} {strict} {bound} OR ({value} = {bound} AND {found}))"
        return f"{values[0]} {strict}= {bounds[0]} AND {found}" if len(values) > 1 else found
