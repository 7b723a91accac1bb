"""Oracle's rows, by oracledb ("thin"). Written by its documentation and tested on recorded answers: no server has been asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from cdc_assets import settings
from cdc_assets.registry.oracle import Oracle
from cdc_assets.resources.rows.driver_connection import DriverConnection
from spark.dialects.oracle import OracleDialect


class OracleConnection(DriverConnection):
    """One database, or one pluggable database of it."""

    NAME, DRIVER = "Oracle", ("oracledb", "oracledb")
    dialect = OracleDialect()
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
