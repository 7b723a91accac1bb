"""A real server that writes a binlog, MariaDB or MySQL, on a port of 127.0.0.1 while it is used.

Its time zone is none that a value could be right in by accident.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc_assets_tests.support.lake.jvm import running, until

if TYPE_CHECKING:
    import pymysql

PASSWORD = "only for tests"
TIME_ZONE = "+05:30"


@dataclass(frozen=True)
class BinlogServer:
    """A running server; `root` and `cdc` (what a connector is granted) have the same password."""

    port: int
    command: Sequence[str]
    log: Path
    _process: ExitStack = field(default_factory=ExitStack, repr=False, compare=False)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        process = self._process.enter_context(running(self.command, log=self.log))
        until(self._answers, process=process, log=self.log)

    def kill(self) -> None:
        """kill -9; nothing when it does not run."""
        self._process.close()

    def connect(self, user: str = "root", **options: Any) -> pymysql.Connection:
        import pymysql

        settings = {"host": "127.0.0.1", "port": self.port, "user": user, "password": PASSWORD, "autocommit": True}
        return pymysql.connect(**{**settings, **options})

    def execute(self, *statements: str) -> None:
        """As root, in one session, each statement committed by itself."""
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def query(self, statement: str) -> Sequence[Sequence[Any]]:
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def _answers(self) -> bool:
        import pymysql

        try:
            self.query("SELECT 1")
        except pymysql.err.OperationalError:
            return False
        return True


@contextmanager
def served(server: BinlogServer, grants: Sequence[str]) -> Iterator[None]:
    """It runs, and the grants are made."""
    try:
        server.start()
        server.execute(*grants)
        yield
    finally:
        server.kill()
