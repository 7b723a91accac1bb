"""A real MySQL on a free port of 127.0.0.1, in a temporary folder."""

from __future__ import annotations

import getpass
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cdc_assets_tests.programs.mysql import mysqld
from cdc_assets_tests.support.lake.jvm import free_port
from cdc_assets_tests.support.servers.binlog_server import PASSWORD, TIME_ZONE, BinlogServer, served

GRANTS = (
    f"CREATE USER cdc IDENTIFIED BY '{PASSWORD}'",
    "GRANT SELECT, RELOAD, SHOW DATABASES, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO cdc",
)


GTIDS = ("--gtid-mode=ON", "--enforce-gtid-consistency=ON")


class MySqlServer(BinlogServer):
    """A running MySQL; its users log in by caching_sha2_password, as the server has it by default."""


@contextmanager
def mysql_server(folder: Path, *options: str) -> Iterator[MySqlServer]:
    """With its own binlog settings (a row binlog, gtid_mode by `options`, which are mysqld's)."""
    port, data, log, user = free_port(), folder / "data", folder / "mysql.log", getpass.getuser()
    program = [mysqld(), "--no-defaults", f"--user={user}", f"--datadir={data}"]
    made = subprocess.run([*program, "--initialize-insecure"], capture_output=True, text=True, check=False)
    assert made.returncode == 0, f"{made.args}: {made.stdout[-1000:]}{made.stderr[-1000:]}"
    init = folder / "init.sql"
    init.write_text(
        f"CREATE USER IF NOT EXISTS root@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n"
        "GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\n"
    )
    with tempfile.TemporaryDirectory(prefix="cdc-mysql-") as sockets:  # a socket's path has at most 107 characters
        command = [
            *(*program, f"--socket={sockets}/s", "--mysqlx=OFF", "--bind-address=127.0.0.1", f"--port={port}"),
            *(f"--init-file={init}", f"--pid-file={folder / 'pid'}", "--server-id=1", "--log-bin=binlog"),
            *("--character-set-server=utf8mb4", f"--default-time-zone={TIME_ZONE}", "--innodb-buffer-pool-size=32M"),
            *("--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0", "--skip-name-resolve"),
            *("--secure-file-priv=NULL", *options),
        ]
        server = MySqlServer(port, command, log)
        with served(server, GRANTS):
            yield server
