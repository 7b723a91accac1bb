"""Oracle's SQL, as oracledb takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark.dialects.dialect import Dialect
from spark.errors import NotInSqlError

if TYPE_CHECKING:
    from spark.specs import Column


class OracleDialect(Dialect):
    """Double quotes, `:1` and FETCH FIRST."""

    def quote(self, *parts: str) -> str:
        """Oracle's names hold no double quote."""
        if '"' in "".join(parts):
            raise NotInSqlError(f"{'.'.join(parts)}: Oracle has no names with a double quote")
        return super().quote(*parts)

    def name_in_query(self, *parts: str) -> str:
        """A percent sign is no place of a value here."""
        return self.quote(*parts)

    def placeholder(self, number: int) -> str:
        """Oracle's sign for a parameter, which are bound by number: `:1`."""
        return f":{number}"

    def limit(self, select: str, rows: int) -> str:
        """The SELECT with a FETCH FIRST at its end."""
        return f"{select} FETCH FIRST {rows} ROWS ONLY"

    def value(self, column: Column) -> str:
        """The thin driver drops the zone of a moment."""
        name = self.quote(column.name)
        return f"SYS_EXTRACT_UTC({name})" if column.source_type.endswith("with time zone") else name
