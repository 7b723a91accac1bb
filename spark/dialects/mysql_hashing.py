"""MySQL's SQL, and what its rows are hashed by. Types are written as PostgreSQL would (docs/reference/databases.md, MySQL)."""

from __future__ import annotations

from decimal import Decimal

from spark.dialects.binlog_hashing import BinlogHashing
from spark.specs import Column

_TEXTS = ("text", "character varying", "character", "uuid")


class MySqlHashingDialect(BinlogHashing):
    """Texts in the collation of their code points without padding, which MySQL has since 8.0.17. MD5() is not in every server:
    9.7.4 has it in a component of its own, which somebody has to install.
    """

    digest = "sha256"

    whole: tuple[str, ...] = ("smallint", "integer", "bigint")
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
