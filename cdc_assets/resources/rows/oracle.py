"""Oracle's rows, by oracledb ("thin"). Written by its documentation and tested on recorded answers: no server has been asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from cdc_assets import settings
from cdc_assets.errors import DatabaseError
from cdc_assets.registry.oracle import Oracle
from cdc_assets.resources.rows.driver_connection import DriverConnection
from cdc_assets.resources.rows.sql import Statements

if TYPE_CHECKING:
    from spark.specs import Column


class OracleStatements(Statements):
    """Double quotes, `:1` and FETCH FIRST."""

    def quote(self, name: str) -> str:
        """Oracle's names hold no double quote."""
        if '"' in name:
            raise DatabaseError(f"{name}: Oracle has no names with a double quote")
        return f'"{name}"'

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


class OracleConnection(DriverConnection):
    """One database, or one pluggable database of it."""

    NAME, DRIVER = "Oracle", ("oracledb", "oracledb")
    statements = OracleStatements()
    _database: Oracle

    @contextmanager
    def _connect(self, driver: Any, host: str, port: int) -> Iterator[Any]:
        database = self._database
        with driver.connect(
            host=host,
            port=port,
            service_name=database.pdb or database.dbname,
            user=settings.resolve(database.user),
            password=settings.secret(database.password),
            tcp_connect_timeout=10,
        ) as connection:
            connection.autocommit = True
            connection.outputtypehandler = _fetch_type(driver)
            yield connection

    def _errors(self, driver: Any) -> tuple[type[Exception], ...]:
        return (driver.Error,)

    def _reason(self, error: Exception) -> str:
        return " ".join(str(error).split())


def _fetch_type(driver: Any) -> Callable[[Any, Any], Any]:
    """Numbers with all their digits, and values where the driver would give locators."""
    whole = {
        driver.DB_TYPE_CLOB: driver.DB_TYPE_LONG,
        driver.DB_TYPE_NCLOB: driver.DB_TYPE_LONG_NVARCHAR,
        driver.DB_TYPE_BLOB: driver.DB_TYPE_LONG_RAW,
    }

    def fetch_type(cursor: Any, metadata: Any) -> Any:
        if metadata.type_code == driver.DB_TYPE_NUMBER:
            return cursor.var(str, 255, cursor.arraysize, outconverter=Decimal)
        found = whole.get(metadata.type_code)
        return cursor.var(found, arraysize=cursor.arraysize) if found else None

    return fetch_type
