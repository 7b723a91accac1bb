"""A worker that is killed between the beginning of a first snapshot and its first row: the snapshot is read again, or it is told.

Debezium tells first that a snapshot begins, and stores what it knows of its place with that: nothing, which it takes at its
next start for a snapshot that is done. A lock on the table holds it there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from cdc_assets import names
from cdc_assets.connectors.apply import apply_connector
from cdc_assets.connectors.capture import capture_config
from cdc_assets.connectors.notifications import Notification
from cdc_assets.registry.postgresql import Database
from cdc_assets.resources.kafka import KafkaCluster
from cdc_assets.volumetry.postgresql_changes import PostgresWitness
from cdc_assets_tests.support.live.captured_table import in_table, in_topic, kill_worker, run
from cdc_assets_tests.support.live.cdc import Cdc
from cdc_assets_tests.support.live.clusters import until
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.volumetry.test_flow_live import Checked

pytestmark = pytest.mark.stack
# The snapshot locks its tables itself, so that it waits for whoever has locked them before.
LOCKING = {
    "snapshot.locking.mode": "shared",
    "snapshot.lock.timeout.ms": "600000",
    "publication.autocreate.mode": "disabled",
}


def said(own: LiveSource | LiveMariaDb) -> list[str]:
    """What the connector has told of its snapshots, oldest first."""
    cluster, topic = KafkaCluster(own.bootstrap), names.notification_topic(own.source(["any.table"]))
    state = cluster.states([topic]).get(topic)
    return [Notification.of(record).type for record in cluster.records(topic, state.ranges)] if state else []


@contextmanager
def locked(own: LiveSource) -> Iterator[None]:
    """Nobody reads the table meanwhile; publication and slot are there before, as those would wait for it, too."""
    run(own, f"CREATE PUBLICATION cdc_{own.name} FOR TABLE public.{own.name}")
    run(own, f"SELECT pg_create_logical_replication_slot('cdc_{own.name}', 'pgoutput')")
    with own.connection(autocommit=False) as connection:
        connection.execute(f"LOCK TABLE public.{own.name} IN ACCESS EXCLUSIVE MODE".encode())
        yield


def config_of(own: LiveSource) -> dict[str, str]:
    with own.settings():
        return {**capture_config(own.source([f"public.{own.name}"])), **LOCKING}


def kill_before_the_first_row(own: LiveSource | LiveMariaDb) -> None:
    """The worker dies when Debezium has told that the snapshot begins, and starts again when the table can be read."""
    until(lambda: "STARTED" in said(own), 120)
    assert "IN_PROGRESS" not in said(own)
    own.parts["core-connect"].kill()


def test_the_first_snapshot_is_read_again(captured: LiveSource) -> None:
    run(captured, f"INSERT INTO public.{captured.name} SELECT n, 'v' FROM generate_series(1, 50) n")
    with locked(captured):
        apply_connector(captured.connect, config_of(captured))
        kill_before_the_first_row(captured)
    kill_worker(captured)
    run(captured, f"UPDATE public.{captured.name} SET v = 'after' WHERE id = 1")
    assert in_topic(captured) == in_table(captured), said(captured)
    assert len(in_table(captured)) == 50


def test_of_a_connector_that_others_have_made_it_is_told(captured: LiveSource, make_cdc: Callable[[str], Cdc]) -> None:
    """As git makes one: nothing is stored for it before its first start."""
    name, table = captured.name, f"public.{captured.name}"
    cdc, source = make_cdc(name), captured.source([table])
    assert isinstance(source.database, Database)
    checked = Checked(captured, source, PostgresWitness(source.database))
    cdc.declare(table)
    run(captured, f"INSERT INTO {table} SELECT n, 'v' FROM generate_series(1, 50) n")
    with locked(captured):
        captured.capture([table], **{key.replace(".", "__"): value for key, value in LOCKING.items()})
        kill_before_the_first_row(captured)
    kill_worker(captured)
    run(captured, f"UPDATE {table} SET v = 'after' WHERE id = 1")
    assert (in_topic(captured), said(captured)[-1]) == ({1: "after"}, "SKIPPED")
    told = "was never completed, and the connector has gone on without it: rows of before are missing; "
    told += f"./cdc snapshot {name} {table} reads them"
    assert told in cdc.json("get", "tables", name)[0]["error"]
    assert told in checked.silent()[table]
    cdc("snapshot", name, table)
    assert in_topic(captured) == in_table(captured)
    assert (cdc.json("get", "tables", name)[0]["error"], checked.silent()) == (None, {})


def test_mariadb_refuses_to_go_on_and_a_restart_reads_it(mariadb: LiveMariaDb, make_cdc: Callable[[str], Cdc]) -> None:
    """Debezium has no place in its empty offset, and says so at each start."""
    own, connector = mariadb.renamed("unfinished"), "unfinished-capture"
    with own.server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE unfinished")
        cursor.execute("CREATE TABLE unfinished.t (id int PRIMARY KEY)")
        cursor.execute("INSERT INTO unfinished.t VALUES (1), (2)")
    with own.settings():
        config = capture_config(own.source(["unfinished.t"]))
    with own.server.connect() as connection, connection.cursor() as cursor:
        # The snapshot's own lock waits for this one.
        cursor.execute("LOCK TABLES unfinished.t WRITE")
        apply_connector(own.connect, config)
        kill_before_the_first_row(own)
    own.parts["core-connect"].start()
    until(lambda: (status := own.connect.status(connector)) is not None and status.failed)
    assert own.connect.offsets(connector) == [{"partition": {"server": "unfinished"}, "offset": {}}]
    make_cdc("unfinished")("restart", connector)
    assert [json.loads(record.key or "") for record in own.delivered()["unfinished.unfinished.t"][0]] == [{"id": 1}, {"id": 2}]
    assert said(own) == ["STARTED", "STARTED", "IN_PROGRESS", "TABLE_SCAN_COMPLETED", "COMPLETED"]
    own.connect.delete(connector)
