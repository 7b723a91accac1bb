"""A real MariaDB on a free port of 127.0.0.1, in a temporary folder: any mariadbd on the PATH, or Debian's."""

from __future__ import annotations

import getpass
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cdc_assets_tests.programs.newer_mariadb import newer_mariadb
from cdc_assets_tests.programs.wanted import MARIADB, command
from cdc_assets_tests.support.lake.jvm import free_port
from cdc_assets_tests.support.servers.binlog_server import PASSWORD, TIME_ZONE, BinlogServer, served


class MariaDbServer(BinlogServer):
    """A running MariaDB."""


GRANTS = (
    f"CREATE USER cdc IDENTIFIED BY '{PASSWORD}'",
    "GRANT SELECT, RELOAD, SHOW DATABASES, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO cdc",
)


@contextmanager
def mariadb_server(folder: Path, *options: str, newer: bool = False) -> Iterator[MariaDbServer]:
    """With a row binlog; `options` are mariadbd's. `newer`: 11.8, else the system's."""
    daemon, set_up = newer_mariadb() if newer else (command(MARIADB, "mariadbd"), command(MARIADB, "mariadb-install-db"))
    port, data, log, socket = free_port(), folder / "data", folder / "mariadb.log", folder / "s"
    folder.chmod(0o755)
    # One that starts takes the temporary tables of another one's out of a folder that both have.
    (folder / "tmp").mkdir()
    install = [set_up, "--no-defaults", f"--datadir={data}", f"--user={getpass.getuser()}"]
    install += ["--auth-root-authentication-method=normal", "--skip-test-db"]
    install += [f"--basedir={Path(daemon).parents[1]}"] if newer else []
    own = {**os.environ, "TMPDIR": str(folder / "tmp")}
    made = subprocess.run(install, capture_output=True, text=True, check=False, env=own)
    assert made.returncode == 0, f"{made.args}: {made.stdout[-1000:]}{made.stderr[-1000:]}"
    (folder / "init.sql").write_text(f"ALTER USER root@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n")
    server_command = [
        *(
            daemon,
            "--no-defaults",
            f"--datadir={data}",
            f"--user={getpass.getuser()}",
            f"--socket={socket}",
            f"--tmpdir={folder / 'tmp'}",
        ),
        *("--bind-address=127.0.0.1", f"--port={port}", f"--init-file={folder / 'init.sql'}", f"--pid-file={folder / 'pid'}"),
        *("--server-id=1", "--log-bin=binlog", "--binlog-format=ROW", "--binlog-row-image=FULL"),
        *("--character-set-server=utf8mb4", f"--default-time-zone={TIME_ZONE}", "--innodb-buffer-pool-size=32M"),
        *("--innodb-flush-log-at-trx-commit=2", "--skip-name-resolve", *options),
    ]
    server = MariaDbServer(port, server_command, log)
    with served(server, GRANTS):
        yield server
