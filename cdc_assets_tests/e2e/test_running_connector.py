"""A connector and a mirror that were made by curl, beside a stack that runs: taken over, carried, a table more, removed.

Nothing but `cdc` is used after that, as by somebody who has had Debezium for years. That the connector is not restarted is
told by its worker's log, and by PostgreSQL's process at its slot.
"""

from __future__ import annotations

import getpass
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from psycopg import sql

from cdc_assets_tests.e2e.source_rows import silver_rows, source_rows
from cdc_assets_tests.e2e.webserver import Graphql
from cdc_assets_tests.support.handmade import ALIAS, Handmade, capture_by_hand, carry_by_hand, reader_of
from cdc_assets_tests.support.lakehouse import Lakehouse, until
from cdc_assets_tests.support.stack_kafka import login_of

pytestmark = pytest.mark.e2e

SOURCE, DATABASE, ROLE, PASSWORD = "till", "till_db", "till_reader", "by-hand-Pa55"
CONNECTOR, MIRROR, SLOT = "till-debezium-postgres-connector", "mm-data-lake-till", f"{SOURCE}_slot"
_ROWS = (
    "SELECT n, 'note ' || n, n / 7.0, timestamptz '2026-01-01 00:00Z' + n * interval '1 second' FROM generate_series(1, 200) n"
)


@dataclass
class Till:
    """The database, and the two Connect clusters' addresses."""

    lakehouse: Lakehouse

    def connect(self, dbname: str = DATABASE, user: str = ROLE, password: str = PASSWORD) -> Any:
        addresses = self.lakehouse.addresses
        host, port = addresses["CDC_POSTGRES_HOST"], int(addresses["CDC_POSTGRES_PORT"])
        return psycopg.connect(host=host, port=port, dbname=dbname, user=user, password=password, autocommit=True)

    def as_superuser(self, dbname: str) -> Any:
        return self.connect(dbname, "postgres", self.lakehouse.private("postgres_password"))

    @property
    def login(self) -> tuple[str, str]:
        return "cdc", self.lakehouse.private("connect_password")

    def create_database(self) -> None:
        """A role that may replicate and owns the database, two tables, and a publication of one of them."""
        with self.as_superuser("postgres") as server:
            server.execute(sql.SQL("CREATE ROLE {} LOGIN REPLICATION PASSWORD {}").format(sql.Identifier(ROLE), PASSWORD))
            server.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(DATABASE), sql.Identifier(ROLE)))
        with self.connect() as connection:
            for table in ("bons", "lines"):
                connection.execute(
                    f"CREATE TABLE {table} (id bigint PRIMARY KEY, note text, price numeric(30,10), at timestamptz)"
                )
                connection.execute(f"INSERT INTO {table} {_ROWS}")
            connection.execute(f"CREATE PUBLICATION dbz_{SOURCE} FOR TABLE bons")

    def create_connectors(self) -> None:
        addresses = self.lakehouse.addresses
        address = {
            "database.port": addresses["CDC_POSTGRES_PORT"],
            "database.user": ROLE,
            "database.password": PASSWORD,
            "database.dbname": DATABASE,
            "publication.autocreate.mode": "disabled",
        }
        core, lake = addresses["CDC_CORE_CONNECT"], addresses["CDC_LAKE_CONNECT"]
        Handmade.post(core, CONNECTOR, capture_by_hand(SOURCE, "public.bons", address), self.login)
        topics = carry_by_hand(f"erp-{SOURCE}.public.bons", addresses["CDC_CORE_BOOTSTRAP"], addresses["CDC_LAKE_BOOTSTRAP"])
        for cluster, prefix in (("core", "source.cluster."), ("lake", "target.cluster.")):
            topics |= login_of(addresses, cluster).references(prefix)
        Handmade.post(lake, MIRROR, topics, self.login)
        until(lambda: Handmade.is_running(core, CONNECTOR, self.login), "the connector does not run")
        until(lambda: Handmade.is_running(lake, MIRROR, self.login), "the mirror does not run")
        until(self.reader, "nobody reads the slot")

    def reader(self) -> str:
        with self.connect() as connection:
            return reader_of(connection, SLOT)

    def starts(self) -> int:
        """How often the worker says that it has started the connector's task."""
        logs = (self.lakehouse.home / "logs").glob("core-connect*")
        return sum(file.read_text(errors="replace").count(f"Instantiated task {CONNECTOR}-0 ") for file in logs if file.is_file())

    def is_equal(self, table: str) -> bool:
        with self.connect() as connection:
            columns, expected = source_rows(connection, table)
        return silver_rows(self.lakehouse.silver(SOURCE, table), columns) == expected


@pytest.fixture(scope="module")
def till(lakehouse: Lakehouse) -> Iterator[Till]:
    made = Till(lakehouse)
    made.create_database()
    # Where its user has put it, as docs/how-to/adopt.md asks; the connector itself has it in clear.
    secret = lakehouse.home / "secrets" / f"{SOURCE}_password"
    secret.write_text(PASSWORD)
    secret.chmod(0o600)
    made.create_connectors()
    yield made
    (lakehouse.sources / f"{SOURCE}.yaml").unlink(missing_ok=True)
    secret.unlink()
    with made.as_superuser("postgres") as server:
        server.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")
        server.execute(f"DROP ROLE {ROLE}")


@pytest.mark.all
def test_it_is_taken_over_and_carried_without_a_restart(till: Till, graphql: Graphql) -> None:
    cdc, before = till.lakehouse.cdc, (till.reader(), till.starts())
    assert before[1] > 0, "the worker's log does not tell of starts"
    written = cdc("adopt", CONNECTOR, "--source", SOURCE, "--yes").stdout
    assert "was not restarted" in written
    entry = till.lakehouse.sources / f"{SOURCE}.yaml"
    assert PASSWORD not in written + entry.read_text()
    assert [row["summary"] for row in json.loads(cdc("apply", SOURCE, "-o", "json").stdout)] == ["unchanged", "unchanged"]
    up = cdc("up", timeout=1200)
    assert "bons" in up.stdout
    assert "failed" not in up.stdout + up.stderr
    with till.connect() as connection:
        connection.execute("UPDATE bons SET price = price + 0.0000000001 WHERE id % 50 = 0")
        connection.execute("DELETE FROM bons WHERE id % 100 = 3")
        connection.execute("INSERT INTO bons VALUES (-1, 'Añb''\"\\ 中', NULL, NULL)")
    cdc("wait", SOURCE, "--timeout", "300")
    assert till.is_equal("bons")
    assert graphql.sensor_that_made(f"silver/{SOURCE}/silver_bons") == f"offsets_{SOURCE}"
    assert (till.reader(), till.starts()) == before


@pytest.mark.all
def test_a_table_comes_in_and_both_are_reconciled(till: Till, graphql: Graphql) -> None:
    cdc, starts = till.lakehouse.cdc, till.starts()
    entry = till.lakehouse.sources / f"{SOURCE}.yaml"
    entry.write_text(entry.read_text().replace("mirror:\n", "mirror:\n  new_tables: first\n"))
    assert "new_tables: first" in entry.read_text()
    done = json.loads(cdc("onboard", SOURCE, "public.lines", "--route", "temporary", "-o", "json").stdout)
    assert (done["state"], done["steps"]["definitions"]["verified"]) == ("done", True)
    assert till.starts() > starts, "so the oracle of restarts tells of one"
    with till.connect() as connection:
        for table in ("bons", "lines"):
            connection.execute(f"UPDATE {table} SET id = id + 1000 WHERE id = 7")
            connection.execute(f"DELETE FROM {table} WHERE id % 100 = 4")
    cdc("wait", SOURCE, "--timeout", "300")
    assert (till.is_equal("bons"), till.is_equal("lines")) == (True, True)
    verdicts = {row["table"]: row["verdict"] for row in json.loads(cdc("reconcile", SOURCE, "-o", "json").stdout)}
    assert verdicts == {f"{SOURCE}/bons": "equal", f"{SOURCE}/lines": "equal"}
    mirror = json.loads(cdc("describe", "connector", MIRROR, "-o", "json").stdout)
    assert f"erp-{SOURCE}.public.bons" in str(mirror)
    assert ALIAS in str(mirror)


_COMMANDS = """{ assetOrError(assetKey: {path: ["cdc", "commands"]}) { ... on Asset {
  assetObservations(limit: 50) { description } } } }"""


@pytest.mark.all
def test_who_did_it_is_in_the_log_of_dagster(till: Till, graphql: Graphql) -> None:
    told = [each["description"] for each in graphql.ask(_COMMANDS)["assetOrError"]["assetObservations"]]
    for command in (f"adopt {CONNECTOR} --source {SOURCE} --yes", f"onboard {SOURCE} public.lines --route temporary -o json"):
        (line,) = [text for text in told if f": cdc {command} (done, " in text]
        assert line.startswith(f"{getpass.getuser()} at {socket.gethostname()}: ")
    assert not [text for text in told if f"cdc reconcile {SOURCE}" in text], "it looks, and changes nothing"


@pytest.mark.all
def test_it_can_be_removed_as_one_of_ours(till: Till) -> None:
    # It was declared by name, so it goes only where that is asked for.
    till.lakehouse.cdc("remove", SOURCE, "--yes", "--delete", "publication")
    listed = {row["name"] for row in json.loads(till.lakehouse.cdc("get", "connectors", "-o", "json").stdout)}
    assert not {CONNECTOR, MIRROR} & listed
