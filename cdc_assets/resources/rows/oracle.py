"""Oracle's rows, by oracledb ("thin"). Written by its documentation and tested on recorded answers: no server has been asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from cdc_assets import settings
from cdc_assets.errors import DatabaseError, DriverMissingError
from cdc_assets.registry.oracle import Oracle
from cdc_assets.resources.rows.sql import Connection, Statements

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


class OracleConnection(Connection):
    """One database, or one pluggable database of it."""

    statements = OracleStatements()

    def __init__(self, database: Oracle) -> None:
        self._database = database

    @contextmanager
    def cursor(self) -> Iterator[Any]:
        """A cursor whose statements are committed one by one.

        Raises:
            DatabaseError: the driver is missing, or what the server says.
        """
        try:
            import oracledb
        except ImportError as error:
            raise DriverMissingError("Oracle", "oracledb") from error
        database = self._database
        host, port = settings.resolve(database.host), int(settings.resolve(database.port))
        whole = {
            oracledb.DB_TYPE_CLOB: oracledb.DB_TYPE_LONG,
            oracledb.DB_TYPE_NCLOB: oracledb.DB_TYPE_LONG_NVARCHAR,
            oracledb.DB_TYPE_BLOB: oracledb.DB_TYPE_LONG_RAW,
        }

        def fetch_type(cursor: Any, metadata: Any) -> Any:
            """Numbers with all their digits, and values where the driver would give locators."""
            if metadata.type_code == oracledb.DB_TYPE_NUMBER:
                return cursor.var(str, 255, cursor.arraysize, outconverter=Decimal)
            found = whole.get(metadata.type_code)
            return cursor.var(found, arraysize=cursor.arraysize) if found else None

        try:
            with oracledb.connect(
                host=host,
                port=port,
                service_name=database.pdb or database.dbname,
                user=settings.resolve(database.user),
                password=settings.secret(database.password),
                tcp_connect_timeout=10,
            ) as connection:
                connection.autocommit = True
                connection.outputtypehandler = fetch_type
                with connection.cursor() as cursor:
                    yield cursor
        except (oracledb.Error, OSError) as error:
            raise DatabaseError(f"Oracle at {host}:{port}: {' '.join(str(error).split())}") from error
