"""SQL Server's rows, by python-tds. Written by its documentation and tested on recorded answers: no server has been asked."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from uuid import UUID

from cdc_assets import settings
from cdc_assets.registry.sqlserver import SqlServer
from cdc_assets.resources.rows.driver_connection import DriverConnection
from spark.dialects.sqlserver import SqlServerDialect


class SqlServerConnection(DriverConnection):
    """One database of a server."""

    NAME, DRIVER = "SQL Server", ("pytds", "python-tds")
    dialect = SqlServerDialect()
    _database: SqlServer

    def _connect(self, driver: Any, host: str, port: int) -> AbstractContextManager[Any]:
        database = self._database
        return driver.connect(
            dsn=f"{host}\\{database.instance}" if database.instance else host,
            port=None if database.instance else port,
            database=database.dbname,
            user=settings.resolve(database.user),
            password=settings.secret(database.password),
            readonly=database.read_only_replica,
            login_timeout=10,
            autocommit=True,
            appname="cdc_assets",
            **_tls(encrypt=database.encrypt, trusting=database.trust_server_certificate),
        )

    def _errors(self, driver: Any) -> tuple[type[Exception], ...]:
        return driver.tds_base.Error, ValueError

    def _reason(self, error: Exception) -> str:
        # The driver tries again until its time is over, and then says nothing of why.
        return str(error) or ("no answer within 10 s" if isinstance(error, TimeoutError) else type(error).__name__)

    def normalize(self, value: Any) -> Any:
        """Debezium's driver writes a uniqueidentifier in capitals."""
        return str(value).upper() if isinstance(value, UUID) else value


def _tls(*, encrypt: bool, trusting: bool) -> dict[str, Any]:
    """A CA file is what makes this driver encrypt (with pyOpenSSL): the system's own, one of which must have signed the server's
    certificate; `trusting` leaves out the host's name only.
    """
    import ssl

    if not encrypt:
        return {}
    return {"cafile": ssl.get_default_verify_paths().cafile, "validate_host": not trusting}
