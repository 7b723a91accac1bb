"""A server reached through a driver that follows Python's DB API: what is the same for all of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from cdc_assets import settings
from cdc_assets.errors import DatabaseError
from cdc_assets.registry.oracle import Oracle
from cdc_assets.registry.sqlserver import SqlServer
from cdc_assets.resources.drivers import import_driver
from cdc_assets.resources.rows.sql import Connection


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

        Raises:
            DatabaseError: the driver is missing, or what the server says.
        """
        driver = import_driver(self.NAME, *self.DRIVER)
        told: tuple[type[Exception], ...] = (OSError, *self._errors(driver))
        host, port = settings.resolve(self._database.host), int(settings.resolve(self._database.port))
        try:
            with self._connect(driver, host, port) as connection, connection.cursor() as cursor:
                yield cursor
        except told as error:
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
