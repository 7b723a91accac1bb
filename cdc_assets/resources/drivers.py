"""The packages that kinds of databases are asked through. Each is needed by its kind alone, and may be missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from cdc_assets import settings
from cdc_assets.errors import DatabaseError, DriverMissingError
from cdc_assets.registry.mariadb import MariaDb
from cdc_assets.registry.mysql import MySql
from cdc_assets.resources.databases.tls import pymysql_options


def import_driver(kind: str, module: str, package: str, *install: str) -> Any:
    """The module of a kind's driver.

    Raises:
        DriverMissingError: its package is not installed; `install` is the command, where it is not the usual one.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise DriverMissingError(kind, package, *install) from error


@contextmanager
def pymysql_cursor(kind: str, database: MariaDb | MySql) -> Iterator[Any]:
    """A cursor whose statements are committed one by one.

    Raises:
        DatabaseError: the driver is missing, or what the server says.
    """
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
