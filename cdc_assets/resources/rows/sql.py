"""Pages of a table by SQL: how a server is asked (`SqlReader`) in its own way (spark.dialects)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdc_assets.errors import DatabaseError
from cdc_assets.registry.identifiers import TableId
from cdc_assets.resources.rows.paged import PAGE, Values
from spark.dialects.dialect import Dialect

if TYPE_CHECKING:
    from spark.specs import Column


class Connection(ABC):
    """How one server is reached, and what its driver's values are here."""

    dialect: Dialect

    @abstractmethod
    def cursor(self) -> AbstractContextManager[Any]:
        """A cursor whose statements are committed one by one; the driver's errors are DatabaseErrors."""

    def normalize(self, value: Any) -> Any:
        """A driver's value, as `texts` knows it."""
        return value


@dataclass(frozen=True)
class SqlReader:
    """Rows of one server (paged.RowReader)."""

    server: Connection

    def pages(self, table: TableId, columns: Sequence[Column], keys: int) -> Iterator[Sequence[Values]]:
        """All rows in pages, by ascending key (the first `keys` columns)."""
        dialect, last = self.server.dialect, None
        with self.server.cursor() as cursor:
            while True:
                query = dialect.page(table, columns, keys, rows=PAGE, first=last is None)
                rows = self._ask(cursor, query, dialect.above(last) if last is not None else [])
                yield [tuple(map(self.server.normalize, row)) for row in rows]
                if len(rows) < PAGE:
                    return
                last = tuple(rows[-1][:keys])
                if None in last:
                    raise DatabaseError(f"{table}: a row has NULL in its key, which is declared as not null")

    def rows_of(self, table: TableId, columns: Sequence[Column], keys: Sequence[Values]) -> Sequence[Values]:
        """At least the rows of these keys."""
        if not keys:
            return []
        dialect = self.server.dialect
        try:
            return self._rows_of(dialect, table, columns, keys)
        except DatabaseError:
            if dialect.dearer is None:
                raise
            return self._rows_of(dialect.dearer, table, columns, keys)

    def _rows_of(self, dialect: Dialect, table: TableId, columns: Sequence[Column], keys: Sequence[Values]) -> Sequence[Values]:
        query = dialect.rows_of(table, columns, len(keys[0]), len(keys))
        with self.server.cursor() as cursor:
            rows = self._ask(cursor, query, [value for key in keys for value in key])
        return [tuple(map(self.server.normalize, row)) for row in rows]

    def mark(self, table: TableId, marker: str) -> None:
        """Commit a row with this id to the marker table, and take away older ones."""
        with self.server.cursor() as cursor:
            for statement in self.server.dialect.mark(table):
                cursor.execute(statement, [marker])

    def condition(self, columns: Sequence[Column], keys: Sequence[Values]) -> str:
        """These keys as a condition; NotInSqlError where a value is of a type that is not written out."""
        return self.server.dialect.condition(columns, keys)

    def signal(self, table: TableId, signal: str, kind: str, data: str) -> None:
        """Commit a signal for the connector."""
        with self.server.cursor() as cursor:
            cursor.execute(self.server.dialect.signal(table), [signal, kind, data])

    def clear(self, table: TableId, signal: str = "") -> int:
        """Take away all signals, or that of this id; how many there were."""
        statement, values = self.server.dialect.unsignal(table, one=bool(signal)), [signal] if signal else []
        with self.server.cursor() as cursor:
            cursor.execute(statement, values)
            return int(cursor.rowcount)

    def _ask(self, cursor: Any, query: str, values: list[Any]) -> list[Any]:
        cursor.execute(query, values)
        return list(cursor.fetchall())
