"""A streaming standby of the tests' PostgreSQL, made by pg_basebackup."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from cdc_assets.stack.component import as_child
from cdc_assets.stack.components.postgres_server import SUPERUSER, binary
from cdc_assets.stack.loopback import HOST
from cdc_assets_tests.support.lake.jvm import free_port, running, until
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.servers.own_server import OwnServer


@contextmanager
def standby(live: LiveSource | OwnServer, *, slots: bool = False) -> Iterator[str]:
    """Its host:port, once it answers; its folder is `standby` beside the primary's. `slots`: it takes failover slots
    over, by its own worker: a call by hand takes one only where no transaction came after what its connector has confirmed."""
    postgres, port = live.postgres, free_port()
    password = postgres.site.home.private("postgres_password")
    data = postgres.data.parent / "standby"
    data.mkdir(mode=0o700)
    if postgres.identity.uid is not None:
        os.chown(data, postgres.identity.uid, postgres.identity.gid or -1)
    primary = ["-h", HOST, "-p", str(postgres.site.ports[postgres.name]), "-U", SUPERUSER]
    backup = [binary("pg_basebackup"), *primary, "-D", str(data), "-R", "-X", "stream", "-c", "fast"]
    backup += ["-d", "dbname=postgres", "-C", "-S", "standby"] if slots else []
    environment = {**os.environ, "PGPASSWORD": password}
    made = subprocess.run(as_child(backup, postgres.identity), env=environment, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    command = [part if part != str(postgres.data) else str(data) for part in postgres.command()]
    command[command.index("-p") + 1] = str(port)
    command += ["-c", "hot_standby_feedback=on", "-c", "sync_replication_slots=on"] if slots else []
    log = postgres.site.home.root / "standby.log"

    def answers() -> bool:
        try:
            with psycopg.connect(host=HOST, port=port, user=SUPERUSER, password=password, dbname="postgres") as connection:
                row = connection.execute("SELECT pg_is_in_recovery()").fetchone()
                return row == (True,)
        except psycopg.OperationalError:
            return False

    with running(as_child(command, postgres.identity), log=log) as process:
        until(answers, process=process, log=log)
        yield f"{HOST}:{port}"
