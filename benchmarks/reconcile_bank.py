"""The bank of pgbench, live in PostgreSQL or MariaDB: captured, and written to at a rate.

Its accounts have a decimal and a column with NULLs besides, and rows that no writer touches (`FIRST` and the following), for
damages to be planted in. In MariaDB pgbench's own transaction is run by threads: no program of its kind comes with the server.
"""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cdc_assets.stack.components.postgres_server import binary
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb
from cdc_assets_tests.support.live.live_source import NAME, LiveSource, live_source
from cdc_assets_tests.support.servers.mariadb_server import mariadb_server

FIRST, KEYS = 50_000_001, 2_000
ACCOUNTS_PER_SCALE = 100_000
_CLIENTS = 4
_TABLES = ("pgbench_accounts", "pgbench_branches", "pgbench_tellers", "pgbench_history")
_ALTER = "ALTER TABLE pgbench_accounts ADD COLUMN price numeric(12,2), ADD COLUMN bound int"
_UPDATE = "UPDATE pgbench_accounts SET price = aid / 7.0, bound = CASE WHEN aid % 2 = 0 THEN aid END"


@dataclass(frozen=True)
class PostgresBank:
    """pgbench's own."""

    live: LiveSource
    tables: Sequence[str] = tuple(f"public.{name}" for name in _TABLES)

    def fill(self, scale: int) -> None:
        """`scale` times 100,000 accounts, and those for damages."""
        _pgbench(self.live, "-i", "-s", str(scale), "-q")
        with self.live.connection() as connection:
            for statement in (
                _ALTER,
                _UPDATE,
                f"INSERT INTO pgbench_accounts SELECT i, 1, i % 1000, 'filler of ' || i, i / 7.0, NULL "
                f"FROM generate_series({FIRST}, {FIRST + KEYS - 1}) i",
                "VACUUM ANALYZE",
            ):
                connection.execute(statement.encode())

    @contextmanager
    def load(self, rate: int) -> Iterator[None]:
        """So many transactions/s, 0: as many as go; with the block they end."""
        paced = ["-R", str(rate)] if rate else []
        command = [binary("pgbench"), "-n", "-c", str(_CLIENTS), *paced, "-T", "100000"]
        process = subprocess.Popen(command, env=_environment(self.live), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield
            assert process.poll() is None, "pgbench ended early"
        finally:
            process.kill()
            process.wait()


@dataclass(frozen=True)
class MariaDbBank:
    """The same tables and transactions."""

    live: LiveMariaDb
    tables: Sequence[str] = tuple(f"bank.{name}" for name in _TABLES)

    def fill(self, scale: int) -> None:
        """`scale` times 100,000 accounts, and those for damages."""
        per, accounts = ACCOUNTS_PER_SCALE, scale * ACCOUNTS_PER_SCALE
        self.live.server.execute("CREATE DATABASE bank")
        with self.live.connection() as connection:
            for statement in (
                "CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84))",
                "CREATE TABLE pgbench_branches (bid int PRIMARY KEY, bbalance int, filler char(88))",
                "CREATE TABLE pgbench_tellers (tid int PRIMARY KEY, bid int, tbalance int, filler char(84))",
                "CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp(6), filler char(22))",
                f"INSERT INTO pgbench_accounts SELECT seq, 1 + (seq - 1) DIV {per}, 0, '' FROM seq_1_to_{accounts}",
                f"INSERT INTO pgbench_branches SELECT seq, 0, NULL FROM seq_1_to_{scale}",
                f"INSERT INTO pgbench_tellers SELECT seq, 1 + (seq - 1) DIV 10, 0, NULL FROM seq_1_to_{10 * scale}",
                _ALTER,
                _UPDATE,
                f"INSERT INTO pgbench_accounts SELECT seq, 1, seq % 1000, CONCAT('filler of ', seq), seq / 7.0, NULL "
                f"FROM seq_{FIRST}_to_{FIRST + KEYS - 1}",
            ):
                connection.execute(statement)

    @contextmanager
    def load(self, rate: int) -> Iterator[None]:
        """So many transactions/s, 0: as many as go; with the block they end."""
        stop, failed = threading.Event(), list[BaseException]()

        def write(seed: int) -> None:
            try:
                self._write(random.Random(seed), _CLIENTS / rate if rate else 0.0, stop)
            except BaseException as error:
                failed.append(error)
                raise

        writers = [threading.Thread(target=write, args=(seed,)) for seed in range(_CLIENTS)]
        for writer in writers:
            writer.start()
        try:
            yield
            assert not failed, f"a writer ended early: {failed[0]!r}"
        finally:
            stop.set()
            for writer in writers:
                writer.join()

    def _write(self, chance: random.Random, seconds: float, stop: threading.Event) -> None:
        """TPC-B as pgbench has it: https://www.postgresql.org/docs/current/pgbench.html."""
        with self.live.connection(autocommit=False) as session:
            scale = int(session.execute("SELECT count(*) FROM pgbench_branches")[0][0])
            due = time.monotonic()
            while not stop.wait(max(0.0, due - time.monotonic())):
                due += seconds
                account = chance.randint(1, scale * ACCOUNTS_PER_SCALE)
                teller, branch, delta = chance.randint(1, 10 * scale), chance.randint(1, scale), chance.randint(-5000, 5000)
                session.execute(f"UPDATE pgbench_accounts SET abalance = abalance + {delta} WHERE aid = {account}")
                session.execute(f"SELECT abalance FROM pgbench_accounts WHERE aid = {account}")
                session.execute(f"UPDATE pgbench_tellers SET tbalance = tbalance + {delta} WHERE tid = {teller}")
                session.execute(f"UPDATE pgbench_branches SET bbalance = bbalance + {delta} WHERE bid = {branch}")
                values = f"{teller}, {branch}, {account}, {delta}, NOW(6), NULL"
                session.execute(f"INSERT INTO pgbench_history VALUES ({values})")
                session.commit()


Bank = PostgresBank | MariaDbBank


@contextmanager
def bank(kind: str, folder: Path) -> Iterator[Bank]:
    """The server, one broker and Connect, everything of its own."""
    for name in ("live", "mariadb"):
        (folder / name).mkdir(mode=0o755)
    with live_source(folder / "live") as live:
        if kind == "postgresql":
            yield PostgresBank(replace(live, name="bank"))
            return
        with mariadb_server(folder / "mariadb", "--innodb-buffer-pool-size=512M") as server:
            yield MariaDbBank(LiveMariaDb(server, live, name="bank"))


def _pgbench(live: LiveSource, *arguments: str) -> None:
    subprocess.run([binary("pgbench"), *arguments], env=_environment(live), check=True, capture_output=True)


def _environment(live: LiveSource) -> dict[str, Any]:
    place = {"PGHOST": "127.0.0.1", "PGPORT": str(live.postgres.site.ports["postgres"]), "PGUSER": NAME, "PGDATABASE": NAME}
    return {**os.environ, **place, "PGPASSWORD": live.home.secret(NAME)}
