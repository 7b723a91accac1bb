"""`cdc remove` after `cdc down --wipe`: no stack, no Connect, and a slot in somebody else's database that holds its log."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc_assets.capture.connectors.apply_source import ensure_signal_table
from cdc_assets.registry.loader import load_source
from cdc_assets.stack.loopback import HOST
from cdc_assets_tests.support.live.live_source import NAME
from cdc_assets_tests.support.servers.own_server import OwnServer, own_server

pytestmark = pytest.mark.service

PASSWORD = "of the test"
KEPT = "--keep", "connector,mirror"
ROLE = "orphan_cdc"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnServer]:
    with own_server(tmp_path_factory.mktemp("server"), password=PASSWORD) as own:
        yield own


@pytest.fixture
def declared(server: OwnServer, tmp_path: Path) -> Iterator[Path]:
    """What is left behind, and the folder with the file that declares its source."""
    server.run(
        "CREATE TABLE IF NOT EXISTS public.orders (id int PRIMARY KEY)",
        "CREATE PUBLICATION cdc_orphan FOR TABLE public.orders",
        "CREATE SCHEMA cdc_assets",
        "CREATE TABLE cdc_assets.witness_orphan (id int PRIMARY KEY)",
        "CREATE TABLE cdc_assets.signal_orphan (id int PRIMARY KEY)",
        "SELECT pg_create_logical_replication_slot('cdc_orphan', 'pgoutput')",
    )
    folder = tmp_path / "sources"
    folder.mkdir()
    write(folder, server, NAME)
    yield folder
    with server.connection() as connection:
        connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
        connection.execute("DROP PUBLICATION IF EXISTS cdc_orphan, shared")
        connection.execute("DROP SCHEMA IF EXISTS cdc_assets CASCADE")


def write(folder: Path, server: OwnServer, user: str, more: str = "") -> None:
    port = server.postgres.site.ports["postgres"]
    database = f"{{kind: postgresql, host: {HOST}, port: {port}, dbname: {NAME}, user: {user}, password: {{secret: orphan}}}}"
    text = f"source: orphan\ndatabase: {database}\n{more}tables: [{{name: public.orders}}]\n"
    (folder / "orphan.yaml").write_text(text)


def started(folder: Path, *arguments: str, verb: str = "remove") -> subprocess.Popen[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CDC_")}
    given = {"CDC_SOURCES": str(folder), "CDC_HOME": str(folder.parent / "home"), "CDC_SECRET_ORPHAN": PASSWORD}
    command = [sys.executable, "-m", "cdc_assets.cli", verb, "orphan", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=clean | given, text=True, **pipes)  # type: ignore[call-overload,no-any-return]


def remove(folder: Path, *arguments: str, code: int = 0) -> str:
    process = started(folder, *arguments)
    out, err = process.communicate(timeout=120)
    assert process.returncode == code, (out, err)
    return out + err


def left(server: OwnServer) -> list[str]:
    """The oracle: what the server itself has."""
    queries = (
        "SELECT slot_name FROM pg_replication_slots",
        "SELECT pubname FROM pg_publication",
        "SELECT nspname FROM pg_namespace WHERE nspname = 'cdc_assets'",
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = to_regnamespace('cdc_assets')",
    )
    with server.connection() as connection:
        return sorted(str(row[0]) for query in queries for row in connection.execute(query.encode()).fetchall())


@pytest.mark.all
def test_preflight_needs_the_database_alone(server: OwnServer, declared: Path) -> None:
    """It said that the server could not be asked, because no Connect is known."""
    process = started(declared, "-v", verb="preflight")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, (out, err)
    assert "orphan: ok: wal_level: server" in out
    assert "orphan: ok: publication: cdc_orphan has all 1 table" in out
    assert "orphan: warn: topics: Kafka and Connect are not asked" in out
    assert re.search(r"orphan: \d+ rules kept, 1 warning, 0 failures", out), out


def test_nothing_goes_before_the_words_that_say_that_connect_is_gone(server: OwnServer, declared: Path) -> None:
    all_of_it = left(server)
    assert all_of_it == ["cdc_assets", "cdc_orphan", "cdc_orphan", "signal_orphan", "witness_orphan"]
    assert "--keep connector,mirror" in remove(declared, "--yes", code=1)
    assert "a source has nothing of that name" in remove(declared, "--keep", "everything", code=2)
    assert "--yes" in remove(declared, *KEPT, code=2)
    remove(declared, *KEPT, "--dry-run")
    assert left(server) == all_of_it
    for word in ("slot", "publication", "tables", "registry"):
        process = started(declared, "--yes", *KEPT)
        assert process.stderr is not None
        assert any(line.startswith(f"{word}: ") for line in process.stderr)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    remove(declared, "--yes", *KEPT)
    assert left(server) == []
    assert [file.name for file in declared.iterdir()] == ["orphan.yaml.removed"]
    assert "nothing was there any more" in remove(declared, "--yes", *KEPT)


def test_what_is_in_use_or_somebody_elses_stays_and_is_told(server: OwnServer, declared: Path) -> None:
    server.run(
        f"CREATE ROLE {ROLE} LOGIN REPLICATION PASSWORD '{PASSWORD}'",
        f"GRANT CONNECT ON DATABASE {NAME} TO {ROLE}",
        "CREATE TABLE cdc_assets.of_somebody_else (id int)",
        "CREATE PUBLICATION shared FOR TABLE public.orders",
    )
    write(declared, server, ROLE, "capture: {publication: shared}\n")
    said = remove(declared, "--yes", *KEPT, code=1)
    assert 'left: publication shared; somebody who may removes it: DROP PUBLICATION "shared"' in said
    assert 'left: table cdc_assets.witness_orphan; somebody who may removes it: DROP TABLE "cdc_assets"."witness_orphan"' in said
    assert "gone: replication slot cdc_orphan" in said
    assert "schema cdc_assets" not in said
    assert "of_somebody_else" in left(server)


@pytest.mark.all
def test_a_signal_table_that_the_role_may_not_make_is_told_with_its_statements(
    server: OwnServer, declared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = "watcher"
    server.run(
        "DROP SCHEMA cdc_assets CASCADE",
        f"CREATE ROLE {user} LOGIN REPLICATION PASSWORD '{PASSWORD}'",
        f"GRANT CONNECT ON DATABASE {NAME} TO {user}",
    )
    write(declared, server, user)
    out, _ = started(declared, "-v", verb="preflight").communicate(timeout=120)
    assert "orphan: warn: signals: cdc_assets.signal_orphan does not exist, and the role may not make it" in out
    monkeypatch.setenv("CDC_SECRET_ORPHAN", PASSWORD)
    source = load_source(declared / "orphan.yaml")
    told = ensure_signal_table(source)
    statements = told.partition("let somebody who may run: ")[2]
    assert statements.startswith(
        'CREATE SCHEMA IF NOT EXISTS "cdc_assets"; CREATE TABLE IF NOT EXISTS "cdc_assets"."signal_orphan" ('
    )
    server.run(statements)
    assert ensure_signal_table(source) == ""
    out, _ = started(declared, "-v", verb="preflight").communicate(timeout=120)
    assert "orphan: ok: signals: cdc_assets.signal_orphan is there" in out
