"""SQL Server's SQL, as python-tds takes it."""

from __future__ import annotations

from spark.delta.identifiers import quote
from spark.dialects.dialect import Dialect
from spark.errors import NotInSqlError


class SqlServerDialect(Dialect):
    """Brackets, TOP and texts in Unicode."""

    def quote(self, *parts: str) -> str:
        """The name in brackets; a closing one within it is doubled."""
        return quote(*parts, sign="[")

    def name_in_query(self, *parts: str) -> str:
        """The driver takes `%` for a place of a value, but only in a statement with values."""
        if "%" in "".join(parts):
            raise NotInSqlError(f"{'.'.join(parts)}: a name with a percent sign cannot be asked for by python-tds")
        return self.quote(*parts)

    def limit(self, select: str, rows: int) -> str:
        """The SELECT with a TOP at its begin."""
        return f"SELECT TOP ({rows}) {select.removeprefix('SELECT ')}"

    def text_constant(self, text: str) -> str:
        """The text as a literal in Unicode: `N'…'`."""
        return "N" + super().text_constant(text)
