"""What MariaDB and MySQL hash their rows by."""

from __future__ import annotations

from collections.abc import Sequence

from spark.canonical.mariadb import utf8
from spark.dialects.hashing import BUCKETS, HashingDialect, Piece
from spark.dialects.mysql import MySqlDialect


class BinlogHashing(MySqlDialect, HashingDialect):
    """CONCAT() of a NULL is NULL, and so is a text longer than max_allowed_packet: that must not pass for a NULL."""

    def text(self, pieces: Sequence[Piece]) -> str:
        """The forms, each ended by `;`."""
        listed = ", ".join(f"IF({column} IS NULL, '', {piece}), ';'" for column, piece, _ in pieces)
        return utf8(f"CONCAT({listed})")

    def hash(self, text: str) -> str:
        """60 bits of the hash as a number; NULL where the text is longer than max_allowed_packet."""
        return f"CAST(CONV(LEFT({self.digest_sql(text)}, 15), 16, 10) AS UNSIGNED)"

    def bucket_of_uuid(self, value: str) -> str | None:
        """Its bytes come as text only."""
        return None

    def bucket_of_text(self, text: str) -> str:
        """By 28 bits of the hash."""
        return f"MOD(CAST(CONV(LEFT({self.digest_sql(text)}, 7), 16, 10) AS UNSIGNED), {BUCKETS})"

    def between(self, values: Sequence[str], after: Sequence[str] | None, to: Sequence[str] | None) -> str:
        """Written out: of a row comparison no index would be used. BETWEEN looks at a text or a uuid once, not twice."""
        parts = [f"{values[0]} BETWEEN {after[0]} AND {to[0]}"] if after and to else []
        parts += [self._beyond(values, ">", after)] if after else []
        parts += [self._beyond(values, "<=", to)] if to else []
        return " AND ".join(parts) or "true"

    def _beyond(self, values: Sequence[str], sign: str, bounds: Sequence[str]) -> str:
        strict = sign.rstrip("=")
        found = f"{values[-1]} {sign} {bounds[-1]}"
        for value, bound in zip(reversed(values[:-1]), reversed(bounds[:-1]), strict=True):
            found = f"({value} {strict} {bound} OR ({value} = {bound} AND {found}))"
        return f"{values[0]} {strict}= {bounds[0]} AND {found}" if len(values) > 1 else found

    def digest_sql(self, text: str) -> str:
        """The hash of a text, in hexadecimal."""
        return f"MD5({text})"
