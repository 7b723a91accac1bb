"""MySQL's SQL, as PyMySQL takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark.delta.identifiers import quote
from spark.dialects.dialect import Dialect

if TYPE_CHECKING:
    from spark.specs import Column


class MySqlDialect(Dialect):
    """Backticks, and texts by their bytes: whether a backslash is one depends on the session that reads it."""

    def quote(self, *parts: str) -> str:
        """The name in backticks; those within it are doubled."""
        return quote(*parts)

    def value(self, column: Column) -> str:
        """A FLOAT is written with six digits unless it is calculated with."""
        name = self.name_in_query(column.name)
        return f"{name} + 0e0" if column.source_type == "real" else name

    def text_constant(self, text: str) -> str:
        """By its bytes: NO_BACKSLASH_ESCAPES is the session's."""
        return f"_utf8mb4 X'{text.encode().hex()}'"


class _AnyText(MySqlDialect):
    """A text that the column's character set does not have is equal to none, where MySQL refuses it; no index serves that."""

    def same(self, column: Column, value: str) -> str:
        """The condition of equality; texts are compared as utf8mb4."""
        text = column.source_type.partition("(")[0] in ("text", "character varying", "character")
        return super().same(column, f"CONVERT({value} USING utf8mb4)" if text else value)


MySqlDialect.dearer = _AnyText()
