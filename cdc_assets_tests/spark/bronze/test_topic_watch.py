"""What wakes a continuous loop, on a real broker: a committed record, at once, and nothing else."""

from __future__ import annotations

import time

import pytest

from cdc_assets.chain.offset_ranges import TopicWatch
from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets_tests.support.lake.topics import PATIENCE, Broker

pytestmark = pytest.mark.spark


def test_a_committed_record_wakes_and_an_open_one_does_not(kafka: str) -> None:
    broker, watch = Broker(kafka), TopicWatch(KafkaCluster(kafka))
    topic = broker.topic()
    broker.transaction(topic, ["before"])
    began = time.monotonic()
    assert not watch.wait(0.2)  # nothing is watched yet, and it does not spin
    assert time.monotonic() - began >= 0.2
    watch.watch({topic: {0: broker.last_stable(topic)}})
    assert not watch.wait(2)
    broker.transaction(topic, ["never"], end="abort")
    producer = broker.transaction(topic, ["not yet"], end="open")
    assert not watch.wait(1)
    broker.commit(producer, topic)
    assert watch.wait(PATIENCE)
    # Read behind the end of before, and again from there when it is to jump back.
    assert not watch.wait(0.5)
    watch.watch({topic: {0: 0}})
    assert not watch.wait(0.5)
    watch.watch({topic: {0: 0}}, jump=True)
    assert watch.wait(PATIENCE)
    watch.close()
    assert not watch.wait(0)
