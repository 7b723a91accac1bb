"""MariaDB's SQL: MySQL's, and what its rows are hashed by."""

from __future__ import annotations

from decimal import Decimal

from spark.canonical import mariadb
from spark.dialects.binlog_hashing import BinlogHashing
from spark.specs import Column


class MariaDbDialect(BinlogHashing):
    """MariaDB's types and collations."""

    whole = mariadb.WHOLE
    _numeric = ("bigint unsigned", "decimal", "decimal unsigned")
    _readable = (*whole, *_numeric, "date", "datetime", "timestamp", "time", "char", "varchar", "uuid")

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

    def readable(self, column: Column) -> bool:
        """Enums and sets are ordered by their numbers, but compared with a text as texts: those are not."""
        return mariadb.type_name(column) in self._readable

    def literal(self, column: Column, text: str) -> str:
        """A text is converted to the column's character set, and compared in its collation: that of a constant is weaker."""
        if mariadb.type_name(column) not in (*self.whole, *self._numeric):
            return self.text_constant(text)
        # Java writes a small decimal as 1E-10, which would be a double here.
        return format(Decimal(text), "f")
