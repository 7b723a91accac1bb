"""`--brokers 3`: a cluster whose topics survive the death of a broker."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from cdc_assets.stack import supervisor
from cdc_assets.stack.component_plan import load
from cdc_assets.stack.home import Home
from cdc_assets_tests.support.own_stack import ELSEWHERE, state_of, until
from cdc_assets_tests.support.stack_fixture import RunningStack, environment_of
from cdc_assets_tests.support.stack_kafka import kafka_settings

pytestmark = [pytest.mark.stack, pytest.mark.all]


def test_three_brokers_replicate_and_one_may_die(tmp_path: Path) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    home = Home(tmp_path / "home")
    with environment_of(home):
        given = {**ELSEWHERE, "CDC_POSTGRES_HOST": "127.0.0.1", "STORAGE_EMULATOR_HOST": "http://127.0.0.1:9"}
        os.environ.update({name: value for name, value in given.items() if name != "CDC_CORE_BOOTSTRAP"})
        supervisor.fetch_jars(supervisor.missing_jars())
        try:
            supervisor.start(home, brokers=3)
            supervisor.wait_healthy(home, seen=lambda _: None, timeout=180)
            assert load(home).bootstrap("core").count(",") == 2
            settings = kafka_settings(RunningStack(home).environment, "core")
            admin = AdminClient(settings)
            admin.create_topics([NewTopic("t", 1)])["t"].result(60)
            # Brokers answer before every one of them has heard of a topic that was made a moment ago.
            until(lambda: any(p.leader > 0 for p in admin.list_topics("t", timeout=30).topics["t"].partitions.values()))
            partition = admin.list_topics("t", timeout=30).topics["t"].partitions[0]
            assert len(partition.replicas) == 3
            leader = state_of(home, "core-kafka" if partition.leader == 1 else f"core-kafka-{partition.leader}")
            assert leader.pid
            os.kill(leader.pid, signal.SIGKILL)
            producer = Producer({**settings, "acks": "all", "message.timeout.ms": 60000})
            errors: list[object] = []
            producer.produce("t", b"written without the leader", on_delivery=lambda error, _: errors.append(error))
            assert producer.flush(90) == 0
            assert errors == [None]
            until(lambda: state_of(home, leader.name).health == "healthy" and state_of(home, leader.name).restarts == 1)
        finally:
            supervisor.stop(home)
