"""What the code server keeps of a sensor that is asked every five seconds for days."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import dagster as dg
import psutil
import pytest

from cdc_assets.clients import platform
from cdc_assets.clients.kafka import TopicState
from cdc_assets.clients.restored_topics import LakeKafka
from cdc_assets.defs.offsets_sensor import build_offsets_sensor
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.registry.source_declaration import TopicSource
from cdc_assets_tests.support.delta_logs import append_bronze, write_silver

TABLES, WARM, TICKS = [f"kept{number:02}" for number in range(40)], 10, 40
MEGABYTE = 2**20


class UnreachedCluster(LakeKafka):
    """Makes librdkafka's clients as the real one does; its topics are told here, so that no broker is needed."""

    def states(self, topics: Sequence[str]) -> dict[str, TopicState]:
        self.clients.admin()
        return {topic: TopicState(topic, f"id-{topic}", {0: (0, 1)}) for topic in topics}


def clients() -> int:
    """librdkafka names the main thread of each client."""
    names = [task.read_text().strip() for task in Path("/proc/self/task").glob("*/comm")]
    return names.count("rdk:main")


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TopicSource:
    """Forty tables, of which silver holds everything."""
    for name, value in {"CDC_LAKE_BOOTSTRAP": "127.0.0.1:9", "CDC_LAKE": str(tmp_path), "CDC_HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    for version, table in enumerate(TABLES):
        append_bronze(tmp_path / "bronze/feeds", table, table, f"id-{table}", 0, 1, version=version)
        write_silver(tmp_path / f"silver/feeds/{table}", table, table, f"id-{table}", 1)
    columns = {"id": "bigint not null"}
    tables = [{"name": t, "topic": t, "envelope": "json", "keys": ["id"], "columns": columns} for t in TABLES]
    return TopicSource.model_validate({"source": "feeds", "kind": "topics", "cluster": "lake", "tables": tables})


@pytest.mark.slow
def test_a_sensor_that_is_asked_again_and_again_keeps_nothing(source: TopicSource) -> None:
    """Each tick had an AdminClient of its own, four threads that stayed until the garbage was collected: thirty at a time."""
    # In a process of its own: here, a client that an earlier test has left may begin or end meanwhile.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        most, grown = pool.submit(ask_again_and_again, source).result()
    assert most == 1
    assert grown < 20 * MEGABYTE


def ask_again_and_again(source: TopicSource) -> tuple[int, int]:
    """The most clients at a time, and by how many bytes the process has grown."""
    platform.LakeKafka = UnreachedCluster  # type: ignore[misc]
    sensor, resource = build_offsets_sensor(source), PlatformResource()
    before, most, grown = clients(), 0, 0
    with dg.DagsterInstance.ephemeral() as instance:
        for tick in range(WARM + TICKS):
            with dg.build_sensor_context(instance=instance, resources={"platform": resource}) as context:
                assert sensor.evaluate_tick(context).skip_message == f"nothing new in {len(TABLES)} topics"
            most = max(most, clients() - before)
            if tick == WARM:
                grown = psutil.Process().memory_info().rss
    return most, psutil.Process().memory_info().rss - grown
