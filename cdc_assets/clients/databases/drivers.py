"""The packages that kinds of databases are asked through, and TLS as each wants to be told of it.

Each package is needed by its kind alone, and may be missing: the error says how it is installed. A server that is reached
through a driver of Python's DB API is the same for all of them, down to its errors.
"""

from __future__ import annotations

import ssl
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from cdc_assets.clients.databases.row_pages import Connection
from cdc_assets.launcher.uv_wheel import CERTIFICATE_BUNDLES
from cdc_assets.registry import settings
from cdc_assets.registry.databases import Encrypted, MariaDb, MySql, Oracle, SqlServer
from cdc_assets.registry.errors import DatabaseError


def libpq_options(database: Encrypted, host: str) -> dict[str, str]:
    """`sslmode`, and where a certificate is verified the file of those who may have signed it.

    Without that file libpq wants one in the user's home, and `system` is where its own OpenSSL was built to look.
    """
    options = {"sslmode": database.mode_at(host)}
    if not database.verifies(host):
        return options
    bundles = (bundle for bundle in CERTIFICATE_BUNDLES if Path(bundle).is_file())
    roots = database.sslrootcert or ssl.get_default_verify_paths().cafile or next(bundles, "system")
    return {**options, "sslrootcert": roots}


def pymysql_options(database: Encrypted, host: str) -> dict[str, Any]:
    """An SSLContext, or none. Told nothing, PyMySQL takes TLS where the server has it; with a context it refuses one without.
    Raises DatabaseError: the file of authorities cannot be read."""
    mode = database.mode_at(host)
    encrypted, plain = database.UNVERIFIED
    if mode == plain:
        return {"ssl_disabled": True}
    if mode != encrypted and not database.verifies(host):
        return {}
    try:
        context = ssl.create_default_context(cafile=database.sslrootcert)
    except OSError as error:
        raise DatabaseError(f"sslrootcert {database.sslrootcert} cannot be read as PEM: {error.strerror or error}") from error
    context.check_hostname = mode == database.VERIFIED[-1]
    if mode == encrypted:
        context.verify_mode = ssl.CERT_NONE
    return {"ssl": context}


def import_driver(kind: str, module: str, package: str, *install: str) -> Any:
    """The module of a kind's driver.
    Raises DatabaseError: its package is not installed; `install` is the command, where it is not the usual one."""
    try:
        return import_module(module)
    except ImportError as error:
        raise DatabaseError.without_driver(kind, package, *install) from error


@contextmanager
def pymysql_cursor(kind: str, database: MariaDb | MySql) -> Iterator[Any]:
    """A cursor whose statements are committed one by one.
    Raises DatabaseError: the driver is missing, or what the server says."""
    pymysql = import_driver(kind, "pymysql", "PyMySQL", "uv sync --inexact --extra mariadb")
    host, port = settings.resolve(database.host), settings.resolve(database.port)
    try:
        connection = pymysql.connect(
            host=host,
            port=int(port),
            user=settings.resolve(database.user),
            password=settings.secret(database.password),
            **pymysql_options(database, host),
            connect_timeout=10,
            charset="utf8mb4",
            autocommit=True,
            program_name="cdc_assets",
        )
        with connection, connection.cursor() as cursor:
            yield cursor
    except (pymysql.err.MySQLError, OSError) as error:
        reason = error.args[-1] if error.args else type(error).__name__
        raise DatabaseError(f"{kind} at {host}:{port}: {database.explain(str(reason), host)}") from error


class DriverConnection(Connection):
    """One server; its kind says how the driver connects, and what it raises."""

    NAME: str
    """For messages."""
    DRIVER: tuple[str, str]
    """The driver's module and its package."""

    def __init__(self, database: Oracle | SqlServer) -> None:
        self._database = database

    @contextmanager
    def cursor(self) -> Iterator[Any]:
        """A cursor whose statements are committed one by one.
        Raises DatabaseError: the driver is missing, or what the server says."""
        driver = import_driver(self.NAME, *self.DRIVER)
        driver_errors: tuple[type[Exception], ...] = (OSError, *self._errors(driver))
        host, port = settings.resolve(self._database.host), int(settings.resolve(self._database.port))
        try:
            with self._connect(driver, host, port) as connection, connection.cursor() as cursor:
                yield cursor
        except driver_errors as error:
            raise DatabaseError(f"{self.NAME} at {host}:{port}: {self._reason(error)}") from error

    @abstractmethod
    def _connect(self, driver: Any, host: str, port: int) -> AbstractContextManager[Any]:
        """A connection that commits each statement."""

    @abstractmethod
    def _errors(self, driver: Any) -> tuple[type[Exception], ...]:
        """What the driver raises, besides OSError."""

    @abstractmethod
    def _reason(self, error: Exception) -> str:
        """What one of them says, for people."""
