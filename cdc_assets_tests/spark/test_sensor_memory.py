"""What the code server keeps of a sensor that is asked every five seconds for days."""

from __future__ import annotations

import warnings
from pathlib import Path

import dagster as dg
import psutil
import pytest
from confluent_kafka.admin import NewTopic

from cdc_assets.registry.topic_source import TopicSource
from cdc_assets.resources.kafka import KafkaCluster
from cdc_assets.resources.platform import Platform
from cdc_assets.sensors.kafka_offsets import build_offsets_sensor
from cdc_assets_tests.dagster.delta_logs import append_bronze, write_silver

TABLES, WARM, TICKS = [f"kept{number:02}" for number in range(40)], 10, 60
MEGABYTE = 2**20


def clients() -> int:
    """librdkafka names the main thread of each client."""
    names = [task.read_text().strip() for task in Path("/proc/self/task").glob("*/comm")]
    return names.count("rdk:main")


def test_a_sensor_that_is_asked_again_and_again_keeps_nothing(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tick had an AdminClient of its own, four threads that stayed until the garbage was collected: thirty at a time."""
    monkeypatch.setenv("CDC_LAKE_BOOTSTRAP", kafka)
    monkeypatch.setenv("CDC_LAKE", str(tmp_path))
    columns = {"id": "bigint not null"}
    tables = [{"name": t, "topic": t, "envelope": "json", "keys": ["id"], "columns": columns} for t in TABLES]
    source = TopicSource.model_validate(
        {"source": "feeds", "owners": ["team:x"], "kind": "topics", "cluster": "lake", "tables": tables}
    )
    cluster, platform = KafkaCluster(kafka), Platform()
    for future in cluster.clients.admin().create_topics([NewTopic(t, 1, 1) for t in TABLES]).values():
        future.result()
    for version, table in enumerate(TABLES):
        topic = cluster.await_state(table, deadline=60).topic_id
        append_bronze(tmp_path / "bronze/feeds", table, table, topic, 0, 0, version=version)
        write_silver(tmp_path / f"silver/feeds/{table}", table, table, topic, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sensor = build_offsets_sensor(source)
        before, most, grown = clients(), 0, 0
        with dg.DagsterInstance.ephemeral() as instance:
            for tick in range(WARM + TICKS):
                context = dg.build_sensor_context(instance=instance, resources={"platform": platform})
                with context:
                    assert sensor.evaluate_tick(context).skip_message == f"nothing new in {len(TABLES)} topics"
                most = max(most, clients() - before)
                if tick == WARM:
                    grown = psutil.Process().memory_info().rss
        grown = psutil.Process().memory_info().rss - grown
    assert most <= 1
    assert grown < 20 * MEGABYTE
