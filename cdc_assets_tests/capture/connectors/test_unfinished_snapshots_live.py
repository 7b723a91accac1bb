"""A worker that is killed between the beginning of a first snapshot and its first row: the snapshot is read again, or it is told.

Debezium tells first that a snapshot begins, and stores what it knows of its place with that: nothing, which it takes at its
next start for a snapshot that is done. A lock on the table holds it there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pytest

from cdc_assets.capture.connectors.apply_connector import apply_connector
from cdc_assets.capture.connectors.connector_restart import restart_connector
from cdc_assets.capture.connectors.debezium_signals import Notification
from cdc_assets.capture.connectors.declared_connectors import capture_config
from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets.proof.flow_witnesses import PostgresWitness
from cdc_assets.registry import names
from cdc_assets.registry.databases import Database
from cdc_assets_tests.support.live.captured_table import captured_table, in_table, in_topic, run
from cdc_assets_tests.support.live.cdc import Cdc
from cdc_assets_tests.support.live.checked_flow import Checked
from cdc_assets_tests.support.live.clusters import until
from cdc_assets_tests.support.live.live_binlog import LiveBinlog
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb
from cdc_assets_tests.support.live.live_mysql import LiveMySql
from cdc_assets_tests.support.live.live_source import LiveSource

pytestmark = pytest.mark.stack
# The snapshot locks its tables itself, so that it waits for whoever has locked them before.
LOCKING = {
    "snapshot.locking.mode": "shared",
    "snapshot.lock.timeout.ms": "600000",
    "publication.autocreate.mode": "disabled",
}


def said(own: LiveSource | LiveBinlog) -> list[str]:
    """What the connector has told of its snapshots, oldest first."""
    cluster, topic = KafkaCluster(own.bootstrap), names.notification_topic(own.source(["any.table"]))
    state = cluster.states([topic]).get(topic)
    return [Notification.of(record).type for record in cluster.records(topic, state.ranges)] if state else []


def fill(own: LiveSource) -> None:
    """Fifty rows; publication and slot are there as well, as those would wait for anybody's lock."""
    table = f"public.{own.name}"
    run(own, f"INSERT INTO {table} SELECT n, 'v' FROM generate_series(1, 50) n")
    run(own, f"CREATE PUBLICATION cdc_{own.name} FOR TABLE {table}")
    run(own, f"SELECT pg_create_logical_replication_slot('cdc_{own.name}', 'pgoutput')")


@contextmanager
def locked(own: LiveSource) -> Iterator[None]:
    """Nobody reads its table meanwhile."""
    with own.connection(autocommit=False) as connection:
        connection.execute(f"LOCK TABLE public.{own.name} IN ACCESS EXCLUSIVE MODE".encode())
        yield


@contextmanager
def locked_by_binlog(own: LiveBinlog) -> Iterator[None]:
    """The snapshot's own lock waits for this one."""
    with own.server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {own.name}")
        cursor.execute(f"CREATE TABLE {own.name}.t (id int PRIMARY KEY)")
        cursor.execute(f"INSERT INTO {own.name}.t VALUES (1), (2)")
        cursor.execute(f"LOCK TABLES {own.name}.t WRITE")
        yield


def config_of(own: LiveSource | LiveBinlog, table: str, settings: Mapping[str, str]) -> dict[str, str]:
    with own.settings():
        return {**capture_config(own.source([table])), **settings}


@dataclass(frozen=True)
class Killed:
    """Sources whose worker died once all of them had told that their snapshots begin, and was started again."""

    ours: LiveSource
    foreign: LiveSource
    """Of a connector that git has made: nothing was stored for it before its first start."""
    mariadb: LiveMariaDb


@pytest.fixture(scope="module")
def killed(live: LiveSource, mariadb: LiveMariaDb) -> Iterator[Killed]:
    with captured_table(live, "unread_ours") as ours, captured_table(live, "unread_foreign") as foreign:
        found = Killed(ours, foreign, mariadb.renamed("unread_mariadb"))
        with ExitStack() as locks:
            for own in (ours, foreign):
                fill(own)
            for own in (ours, foreign):
                locks.enter_context(locked(own))
            locks.enter_context(locked_by_binlog(found.mariadb))
            apply_connector(live.connect, config_of(ours, f"public.{ours.name}", LOCKING))
            foreign.capture([f"public.{foreign.name}"], **{key.replace(".", "__"): value for key, value in LOCKING.items()})
            apply_connector(live.connect, config_of(found.mariadb, f"{found.mariadb.name}.t", {}))
            sources = (ours, foreign, found.mariadb)
            until(lambda: all("STARTED" in said(own) for own in sources))
            assert not any("IN_PROGRESS" in said(own) for own in sources)
            live.parts["core-connect"].kill()
        live.parts["core-connect"].start()
        yield found
        live.connect.delete(f"{found.mariadb.name}-capture")


def test_the_first_snapshot_is_read_again(killed: Killed) -> None:
    own = killed.ours
    own.connect.wait_running(f"{own.name}-capture")
    run(own, f"UPDATE public.{own.name} SET v = 'after' WHERE id = 1")
    assert in_topic(own) == in_table(own), said(own)
    assert len(in_table(own)) == 50


def test_of_a_connector_that_others_have_made_it_is_told(killed: Killed, make_cdc: Callable[[str], Cdc]) -> None:
    own = killed.foreign
    name, table = own.name, f"public.{own.name}"
    cdc, source = make_cdc(name), own.source([table])
    assert isinstance(source.database, Database)
    checked = Checked(own, source, PostgresWitness(source.database))
    cdc.declare(table)
    own.connect.wait_running(f"{name}-capture")
    run(own, f"UPDATE {table} SET v = 'after' WHERE id = 1")
    assert (in_topic(own), said(own)[-1]) == ({1: "after"}, "SKIPPED")
    told = "was never completed, and the connector has gone on without it: rows of before are missing; "
    told += f"./cdc snapshot {name} {table} reads them"
    assert told in cdc.json("get", "tables", name)[0]["error"]
    assert told in checked.silent()[table]
    cdc("snapshot", name, table)
    assert in_topic(own) == in_table(own)
    assert (cdc.json("get", "tables", name)[0]["error"], checked.silent()) == (None, {})
    (cdc.folder / f"{name}.yaml").unlink()


def test_mariadb_refuses_to_go_on_and_a_restart_reads_it(killed: Killed, make_cdc: Callable[[str], Cdc]) -> None:
    """Debezium has no place in its empty offset, and says so at each start."""
    own = killed.mariadb
    refuses_to_go_on(own)
    make_cdc(own.name)("restart", f"{own.name}-capture")
    is_read(own)


@pytest.mark.all
def test_mysql_refuses_to_go_on_and_a_restart_reads_it(mysql: LiveMySql) -> None:
    own, connector = mysql.renamed("unread_mysql"), "unread_mysql-capture"
    with locked_by_binlog(own):
        apply_connector(own.connect, config_of(own, f"{own.name}.t", {}))
        until(lambda: "STARTED" in said(own))
        assert "IN_PROGRESS" not in said(own)
        own.parts["core-connect"].kill()
    own.parts["core-connect"].start()
    refuses_to_go_on(own)
    restart_connector(own.connect, connector)
    own.connect.wait_running(connector)
    is_read(own)


def refuses_to_go_on(own: LiveBinlog) -> None:
    connector = f"{own.name}-capture"
    until(lambda: (status := own.connect.status(connector)) is not None and status.failed)
    assert own.connect.offsets(connector) == [{"partition": {"server": own.name}, "offset": {}}]


def is_read(own: LiveBinlog) -> None:
    assert [json.loads(record.key or "") for record in own.delivered()[f"{own.name}.{own.name}.t"][0]] == [{"id": 1}, {"id": 2}]
    assert said(own) == ["STARTED", "STARTED", "IN_PROGRESS", "TABLE_SCAN_COMPLETED", "COMPLETED"]
