"""MySQL's rows, by PyMySQL, in a session whose settings are our own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cdc_assets.registry.mysql import MySql
from cdc_assets.resources.drivers import pymysql_cursor
from cdc_assets.resources.rows.sql import Connection
from spark.dialects.mysql import MySqlDialect

# A TIMESTAMP is read in UTC; NO_BACKSLASH_ESCAPES would change how the driver writes bound values.
_SETTINGS = "SET SESSION time_zone = '+00:00', sql_mode = '', lock_wait_timeout = 2"


class MySqlConnection(Connection):
    """One MySQL server's sessions."""

    dialect = MySqlDialect()

    def __init__(self, database: MySql) -> None:
        self._database = database

    @contextmanager
    def cursor(self) -> Iterator[Any]:
        """A cursor whose statements are committed one by one.

        Raises:
            DatabaseError: the driver is missing, or what the server says.
        """
        with pymysql_cursor("MySQL", self._database) as cursor:
            cursor.execute(_SETTINGS)
            yield cursor
