"""pgbench's transactions against the example bank, for as long as something is measured beside them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.bench.errors import BenchError
from benchmarks.bench.example_sources import connect_example
from cdc_assets.registry import settings
from cdc_assets.stack.components.postgres_server import binary
from cdc_assets.stack.home import Home

_CLIENTS, _AT_MOST_SECONDS = 4, 3_600
_REACHED = 0.9
_COUNT = "SELECT count(*) FROM pgbench_history"


@dataclass
class Load:
    """Transactions a second that were committed: known once it has ended."""

    reached: float = 0.0


@contextmanager
def transactions(rate: float) -> Iterator[Load]:
    """So many a second: each updates an account and inserts a line of history.

    Without pgbench's updates of the one branch: all would wait for each other there.

    Raises:
        BenchError: pgbench ended, or the database took fewer than 90 % of them.
    """
    home, load = Home(settings.home()), Load()
    where = ["-h", settings.address("CDC_POSTGRES_HOST"), "-p", settings.address("CDC_POSTGRES_PORT"), "-U", "bank_cdc"]
    command = [binary("pgbench"), "--no-vacuum", "--builtin=simple-update", f"--rate={rate:.0f}", f"--client={_CLIENTS}"]
    environment = {**os.environ, "PGPASSWORD": home.secret("bank_db_password")}
    with connect_example("bank") as connection:
        (before,) = connection.execute(_COUNT).fetchone()
        process = subprocess.Popen(
            [*command, f"--time={_AT_MOST_SECONDS}", *where, "bank"], env=environment, stdout=subprocess.DEVNULL
        )
        began = time.monotonic()
        try:
            yield load
            ended = process.poll()
            (after,) = connection.execute(_COUNT).fetchone()
            load.reached = (after - before) / (time.monotonic() - began)
        finally:
            # Not SIGINT: what a shell has started in the background ignores it.
            process.terminate()
            process.wait()
    if ended is not None or load.reached < rate * _REACHED:
        raise BenchError(f"pgbench committed {load.reached:.0f} transactions a second, wanted were {rate:.0f}; exit code {ended}")
