"""A connector that runs and emits nothing of a table turns red, on a real PostgreSQL with a real Debezium; nothing else does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets.proof.flow_witnesses import PostgresWitness
from cdc_assets.registry import names
from cdc_assets.registry.databases import Database
from cdc_assets_tests.support.live.checked_flow import Checked
from cdc_assets_tests.support.live.clusters import until
from cdc_assets_tests.support.live.live_source import LiveSource

TABLES = ("public.flow_a", "public.flow_b")


def recreated(cluster: KafkaCluster, topic: str) -> None:
    """The topic is another one of the same name, and empty."""
    before = cluster.states([topic])[topic].topic_id
    cluster.delete_topic(topic)
    until(lambda: not cluster.states([topic]))
    cluster.ensure_topic(topic, partitions=1, retention_ms=604_800_000, replication_factor=1)
    assert cluster.await_state(topic, deadline=90).topic_id != before


@pytest.mark.all
@pytest.mark.stack
def test_a_silent_table_is_found_and_no_other(live: LiveSource) -> None:
    live = replace(live, name="flow")
    with live.connection() as connection:
        for table in TABLES:
            connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, v text)".encode())
        connection.execute("INSERT INTO flow_a SELECT i, 'a' FROM generate_series(1, 50) i")
    live.capture(TABLES)
    source = live.source(TABLES)
    assert isinstance(source.database, Database)
    checked = Checked(live, source, PostgresWitness(source.database))

    def change(*statements: str, rollback: bool = False) -> None:
        with live.connection(autocommit=False) as connection:
            process = connection.info.backend_pid
            for statement in statements:
                connection.execute(statement.encode())
            if rollback:
                connection.rollback()
        # The counters of a session are written when it ends, before it is no longer listed.
        with live.connection() as other:
            until(lambda: not other.execute("SELECT FROM pg_stat_activity WHERE pid = %s", [process]).fetchall())

    assert checked.silent() == {}
    assert checked.silent() == {}
    change("UPDATE flow_a SET v = 'b'", "INSERT INTO flow_b VALUES (1, 'x')")
    assert checked.silent() == {}
    change("UPDATE flow_a SET v = 'c'", "DELETE FROM flow_b", "INSERT INTO flow_b VALUES (7, 'never')", rollback=True)
    assert checked.silent() == {}
    publication = names.publication_name(checked.source)
    change(f"ALTER PUBLICATION {publication} DROP TABLE flow_b")
    change("UPDATE flow_b SET v = 'lost'")
    assert "not in publication" in checked.silent()["public.flow_b"]
    change(f"ALTER PUBLICATION {publication} ADD TABLE flow_b")
    # In the publication again, but its change was not decoded: still silent, whatever else was rolled back meanwhile.
    change("UPDATE flow_a SET v = 'd'", rollback=True)
    assert "1 row change at the source since the last check" in checked.silent()["public.flow_b"]
    change("UPDATE flow_b SET v = 'seen'")
    assert checked.silent() == {}
    # Another topic under the same name, with far fewer records than the old one had: its offsets begin anew.
    cluster, topic = KafkaCluster(live.bootstrap), names.topic(source, source.table("flow_a"))
    recreated(cluster, topic)
    change("UPDATE flow_a SET v = 'new' WHERE id = 1")
    assert checked.silent() == {}
    assert cluster.states([topic])[topic].ends[0] < 10
    live.capture(TABLES, table__include__list="public\\.flow_a")
    change("UPDATE flow_a SET v = 'e'")
    assert set(checked.silent()) == {"public.flow_b"}
    assert "table.include.list" in checked.silent()["public.flow_b"]
    # Rows that were there before the connector knew the table: nothing changes, and nothing of them ever came.
    with live.connection() as connection:
        connection.execute("CREATE TABLE flow_c (id int PRIMARY KEY)")
        connection.execute("CREATE TABLE flow_empty (id int PRIMARY KEY)")
        connection.execute("INSERT INTO flow_c SELECT generate_series(1, 5)")
        connection.execute(f"ALTER PUBLICATION {publication} SET TABLE flow_a, flow_b, flow_c, flow_empty".encode())
    more = (*TABLES, "public.flow_c", "public.flow_empty")
    live.capture(more)
    checked = Checked(live, live.source(more), checked.witness)
    told = checked.silent()
    assert set(told) == {"public.flow_c"}, told
    assert "5 rows at the source and no record in topic" in told["public.flow_c"]
    assert "./cdc snapshot flow public.flow_c reads them" in told["public.flow_c"]
