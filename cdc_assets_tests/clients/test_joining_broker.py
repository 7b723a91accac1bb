"""A broker that knows of no brokers is waited for, or told: DescribeCluster ended the whole process there (librdkafka 2.16.0)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets.registry.errors import ServiceError
from cdc_assets.stack.component import Site
from cdc_assets.stack.components.kafka_broker import KafkaBroker
from cdc_assets.stack.home import Home
from cdc_assets.stack.stack_errors import NotReadyError
from cdc_assets_tests.support.servers.joining_broker import JoiningBroker


@pytest.fixture(params=range(4))
def broker(request: pytest.FixtureRequest) -> Iterator[JoiningBroker]:
    found = JoiningBroker(request.param)
    yield found
    found.close()


def asked_often(question: Callable[[], object]) -> None:
    # librdkafka asks once or twice by itself before the call's own request.
    for _ in range(5):
        question()


@pytest.mark.slow
def test_a_cluster_without_brokers_is_told(broker: JoiningBroker) -> None:
    cluster = KafkaCluster(f"127.0.0.1:{broker.port}", timeout=1)
    with pytest.raises(ServiceError, match=rf"Kafka at 127\.0\.0\.1:{broker.port}"):
        asked_often(cluster.brokers)


def test_the_embedded_one_is_not_ready_then(broker: JoiningBroker, tmp_path: Path) -> None:
    component = KafkaBroker(Site(Home(tmp_path), {"core-kafka": broker.port}), "core", 1)
    with pytest.raises(NotReadyError):
        asked_often(component.probe)


def test_one_that_has_joined_tells_its_cluster() -> None:
    broker = JoiningBroker(1000)
    cluster = KafkaCluster(f"127.0.0.1:{broker.port}", timeout=60)
    assert (cluster.cluster_id(), cluster.brokers()) == ("kafka", 1)
    broker.close()
