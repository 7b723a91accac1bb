"""Logical messages of others: none becomes a record, whatever prefix it has, so that none is too large to be sent."""

from __future__ import annotations

from cdc_assets.capture.log_position import await_in_core
from cdc_assets.clients.databases.postgresql import PostgresDatabase
from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets_tests.support.live.captured_table import in_table, in_topic, run, start_streaming
from cdc_assets_tests.support.live.live_source import LiveSource


def test_messages_of_others(captured: LiveSource) -> None:
    start_streaming(captured)
    for prefix in ("cdc_assets", "anything"):
        # A producer sends 10 MiB at most; 200 MB end the worker before Debezium looks at the prefix.
        run(captured, f"SELECT pg_logical_emit_message(true, '{prefix}', repeat('x', 12000000))")
    run(captured, f"INSERT INTO public.{captured.name} VALUES (1, 'behind them')")
    assert in_topic(captured) == in_table(captured) == {1: "behind them"}
    with captured.settings():
        source = captured.source([f"public.{captured.name}"])
        core = KafkaCluster(captured.bootstrap)
        assert await_in_core(source, database=PostgresDatabase(source.database), core=core, core_connect=captured.connect)
    status = captured.connect.status(f"{captured.name}-capture")
    assert status is not None
    assert (status.state, status.tasks) == ("RUNNING", ("RUNNING",))
