"""A PostgreSQL server of one test, whose folder can be kept, put back, or replaced by its promoted standby."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from typing_extensions import override

from cdc_assets.stack.component import Site
from cdc_assets.stack.components.postgres_server import Postgres, ensure_database, ensure_role
from cdc_assets.stack.home import Home
from cdc_assets.stack.loopback import assign
from cdc_assets_tests.programs.wanted import LOCALES, command, find_file
from cdc_assets_tests.support.live.live_source import NAME, Part


@dataclass
class OwnServer:
    """It runs; the database is called `live`, and belongs to a role of that name."""

    postgres: Postgres
    part: Part

    def connection(self) -> psycopg.Connection:
        return self.postgres.connect(NAME)

    def run(self, *statements: str) -> None:
        with self.connection() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def copy(self, to: Path) -> None:
        """Keep the folder as a snapshot of its volume would, its slots too, while the server goes on."""
        data = self.postgres.data
        with self.postgres.connect() as connection:
            connection.execute("SELECT pg_backup_start('kept', true)")
            _copied(data, to)
            row = connection.execute("SELECT labelfile FROM pg_backup_stop(false)").fetchone()
        assert row is not None
        # The log up to the copy's end, without which it is not consistent.
        shutil.copytree(data / "pg_wal", to / "pg_wal", dirs_exist_ok=True)
        (to / "backup_label").write_text(row[0])
        _owned(to, data)

    def put(self, folder: Path) -> None:
        """The server is what this folder holds."""
        self.part.stop()
        shutil.rmtree(self.postgres.data)
        _copied(folder, self.postgres.data)
        self.part.start()


def _copied(folder: Path, to: Path) -> None:
    shutil.copytree(folder, to, ignore=shutil.ignore_patterns("postmaster.*"))
    _owned(to, folder)


def _owned(to: Path, like: Path) -> None:
    """The server's user needs it."""
    at = like.stat()
    for path in (to, *to.rglob("*")):
        os.chown(path, at.st_uid, at.st_gid, follow_symlinks=False)
    to.chmod(0o700)


class PostgresWithLocales(Postgres):
    """Its collations are those of compiled locales in a folder."""

    locales: Path

    @override
    def environment(self) -> dict[str, str]:
        return {**super().environment(), "LOCPATH": str(self.locales)}


def with_locale(site: Site, folder: Path, locale: str) -> Postgres:
    """With this locale of glibc, such as en_US.UTF-8, whose source is in Debian's package `locales`."""
    define = command(LOCALES, "localedef")
    folder.mkdir(mode=0o755)
    name, _, encoding = locale.partition(".")
    sources = find_file("usr/share/i18n")
    environment = {**os.environ, "I18NPATH": str(sources)}
    subprocess.run([define, "-i", name, "-f", encoding, str(folder / locale)], env=environment, check=True)
    server = PostgresWithLocales(site)
    server.locales = folder
    return server


@contextmanager
def own_server(folder: Path, *, password: str | None = None, locale: str | None = None) -> Iterator[OwnServer]:
    """Started, and stopped afterwards; `password` of the role, default one of its own; `locale` besides C.UTF-8."""
    for part in (folder, *folder.parents):
        if part.is_relative_to("/tmp") and part != Path("/tmp"):
            part.chmod(0o755)  # the server is another user's
    site = Site(Home(folder / "server").create(), assign(("postgres",), {}))
    postgres = Postgres(site) if locale is None else with_locale(site, folder / "locales", locale)
    part = Part(postgres)
    part.start()
    try:
        with postgres.connect() as connection:
            ensure_role(connection, NAME, password or postgres.site.home.secret(NAME), "LOGIN SUPERUSER")
            ensure_database(connection, NAME, owner=NAME)
        postgres.reserve_messages(NAME, NAME)
        yield OwnServer(postgres, part)
    finally:
        part.stop()
