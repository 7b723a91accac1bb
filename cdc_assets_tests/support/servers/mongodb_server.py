"""A MongoDB-compatible server (SecantusDB) on a free port of 127.0.0.1, in a temporary folder: one member of a replica set."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cdc_assets_tests.programs.secantus import packages, secantus
from cdc_assets_tests.support.lake.jvm import free_port, running, until
from cdc_assets_tests.support.servers.binlog_server import PASSWORD

REPLICA_SET = "secantus"
ROLES = ("readAnyDatabase", "clusterMonitor")
"""What the connector and the checks are granted; markers and signals are granted by who has them."""


@dataclass(frozen=True)
class MongoDbServer:
    """A running server; `root` and `cdc` (what a connector is granted) have the same password."""

    port: int
    command: Sequence[str]
    log: Path
    _process: ExitStack = field(default_factory=ExitStack, repr=False, compare=False)

    def start(self, *options: str) -> None:
        """Start it, and wait until it answers."""
        process = self._process.enter_context(running([*self.command, *options], log=self.log))
        until(self._answers, process=process, log=self.log)

    def kill(self) -> None:
        """kill -9; nothing when it does not run."""
        self._process.close()

    @property
    def hosts(self) -> str:
        return f"127.0.0.1:{self.port}"

    @contextmanager
    def client(self, user: str = "root", **options: Any) -> Iterator[Any]:
        """A client of pymongo's that has logged in."""
        import pymongo

        login = {"username": user, "password": PASSWORD} if user else {}
        settings = {"replicaSet": REPLICA_SET, "serverSelectionTimeoutMS": 2000, **login, **options}
        with pymongo.MongoClient(self.hosts, **settings) as client:
            yield client

    def grant(self, database: str, role: str = "readWrite") -> None:
        """Grant the connector's user a role in a database."""
        with self.client() as client:
            client.admin.command("grantRolesToUser", "cdc", roles=[{"role": role, "db": database}])

    def _answers(self) -> bool:
        import pymongo

        try:
            with self.client("") as client:
                client.admin.command("hello")
        except pymongo.errors.PyMongoError:
            return False
        return True


@contextmanager
def mongodb_server(folder: Path) -> Iterator[MongoDbServer]:
    """With logins: users are made in a first run without them."""
    port = free_port()
    command = [
        *(*secantus(), "--host", "127.0.0.1", "--port", str(port), "--storage-path", str(folder / "data")),
        *("--noop-heartbeat-seconds", "5", "--cache-size", "64M", "--log-level", "WARNING"),
    ]
    if find_spec("pymongo") is None:
        # Behind all of the tests' own.
        sys.path.append(str(packages()))
    server = MongoDbServer(port, command, folder / "mongodb.log")
    try:
        server.start("--sync-on-commit")
        with server.client("") as client:
            client.admin.command("createUser", "root", pwd=PASSWORD, roles=["root"])
            client.admin.command("createUser", "cdc", pwd=PASSWORD, roles=[{"role": r, "db": "admin"} for r in ROLES])
        server.kill()
        server.start("--auth")
        yield server
    finally:
        server.kill()
