"""The SQL by which PostgreSQL, MariaDB and MySQL hash their rows themselves.

MySQL's types are written as PostgreSQL would (docs/reference/databases.md, MySQL).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from spark.specs import Column
from spark.table.identifiers import text_literal
from spark.values import column_forms
from spark.values.column_forms import utf8
from spark.values.sql_dialects import BUCKETS, HASH_BITS, HashingDialect, MySqlDialect, Piece
from spark.values.type_rule import SourceType


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
        condition = f"{values[-1]} {sign} {bounds[-1]}"
        for value, bound in zip(reversed(values[:-1]), reversed(bounds[:-1]), strict=True):
            condition = f"({value} {strict} {bound} OR ({value} = {bound} AND {condition}))"
        return f"{values[0]} {strict}= {bounds[0]} AND {condition}" if len(values) > 1 else condition

    def digest_sql(self, text: str) -> str:
        """The hash of a text, in hexadecimal."""
        return f"MD5({text})"


_TEXTS = ("text", "character varying", "character", "uuid")


class MySqlHashingDialect(BinlogHashing):
    """Texts in the collation of their code points without padding, which MySQL has since 8.0.17. MD5() is not in every server:
    9.7.4 has it in a component of its own, which somebody has to install.
    """

    digest = "sha256"

    whole: tuple[str, ...] = ("smallint", "integer", "bigint", "year")
    _numeric = ("bigint unsigned", "numeric")
    _readable = (*whole, *_numeric, "date", "timestamp without time zone", "timestamp with time zone", *_TEXTS)

    def sort_key(self, column: Column) -> str | None:
        """Whole numbers, and texts by their code points."""
        name = self.quote(column.name)
        if _type_name(column) in self.whole:
            return name
        return f"CONVERT({name} USING utf8mb4) COLLATE utf8mb4_0900_bin" if _type_name(column) in _TEXTS else None

    def constant(self, column: Column, value: int | str) -> str:
        """Bytes in hexadecimal, so that no character of a key is one of SQL."""
        return str(value) if isinstance(value, int) else f"{self.text_constant(value)} COLLATE utf8mb4_0900_bin"

    def readable(self, column: Column) -> bool:
        """Not bits, bytes and floats, whose text is another."""
        return _type_name(column) in self._readable

    def converts_in_list(self, column: Column) -> bool:
        """The catalogue's character set is not kept: a text may be of any."""
        return _type_name(column) not in _TEXTS

    def literal(self, column: Column, text: str) -> str:
        """A text is converted to the column's character set, and compared in its collation: that of a constant is weaker."""
        if _type_name(column) not in (*self.whole, *self._numeric):
            return self.text_constant(text)
        # Java writes a small decimal as 1E-10, which would be a double here.
        return format(Decimal(text), "f")

    def digest_sql(self, text: str) -> str:
        """The hash of a text, in hexadecimal."""
        return f"SHA2({text}, 256)"


def _type_name(column: Column) -> str:
    """Its type without digits: `timestamp without time zone`."""
    head, bracket, rest = column.source_type.partition("(")
    return f"{head.strip()}{rest.partition(')')[2]}" if bracket else head


class MariaDbDialect(BinlogHashing):
    """MariaDB's types and collations."""

    whole = column_forms.WHOLE
    _numeric = ("bigint unsigned", "decimal", "decimal unsigned")
    _readable = (*whole, *_numeric, "date", "datetime", "timestamp", "time", "char", "varchar", "uuid")

    def sort_key(self, column: Column) -> str | None:
        """Texts by their code points, without padding; uuids as bytes: their own order swaps parts, and versions changed it."""
        name = column_forms.type_name(column)
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
        if column_forms.type_name(column) == "uuid":
            return f"X'{value.replace('-', '')}'"
        return f"{self.text_constant(value)} COLLATE utf8mb4_nopad_bin"

    def readable(self, column: Column) -> bool:
        """Enums and sets are ordered by their numbers, but compared with a text as texts: those are not."""
        return column_forms.type_name(column) in self._readable

    def literal(self, column: Column, text: str) -> str:
        """A text is converted to the column's character set, and compared in its collation: that of a constant is weaker."""
        if column_forms.type_name(column) not in (*self.whole, *self._numeric):
            return self.text_constant(text)
        # Java writes a small decimal as 1E-10, which would be a double here.
        return format(Decimal(text), "f")


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
        parts = [argument for _, _, arguments in pieces for argument in (*arguments, "';'")]
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
