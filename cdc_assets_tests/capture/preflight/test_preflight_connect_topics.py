"""Connect's own topics: what a worker would only find at its next start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from cdc_assets.capture.preflight.inspection import Finding
from cdc_assets.capture.preflight.kafka_topics import connect_topic_findings
from cdc_assets.clients.kafka import TopicState
from cdc_assets_tests.support.fakes import FakeKafka, FakeTopic

COMPACT = {"cleanup.policy": "compact"}


class FakeConnect:
    """One connector, and its own topics on a cluster of this id."""

    url = "http://connect"
    cluster = "fake"

    def connectors(self) -> list[str]:
        return ["shop-capture"]

    def kafka_cluster_id(self) -> str:
        return self.cluster


def kept(*, written: int = 9, partitions: int = 1, policy: str = "compact", copies: int = 3) -> FakeTopic:
    logs: dict[int, list[tuple[bytes | None, bytes | None] | None]] = {p: [(b"k", b"v")] * written for p in range(partitions)}
    return FakeTopic("id", logs, config={"cleanup.policy": policy}, copies=copies)


def found(**topics: FakeTopic) -> dict[str, Finding]:
    """What is not as it must be."""
    whole = {"configs": kept(), "offsets": kept(partitions=25), "status": kept(partitions=5)} | topics
    kafka = FakeKafka({f"_core-connect-{use}": topic for use, topic in whole.items()})
    named = {finding.subject.rsplit("-", 1)[1]: finding for finding in connect_topic_findings("core", FakeConnect(), kafka)}
    assert sorted(named) == ["configs", "offsets", "status"]
    return {use: finding for use, finding in named.items() if finding.level != "ok"}


def test_what_connect_makes_is_as_it_must_be() -> None:
    assert found() == {}
    assert found(offsets=kept(written=0)) == {}


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_what_expires(policy: str) -> None:
    (finding,) = found(offsets=kept(policy=policy)).values()
    assert (finding.level, f"cleanup.policy={policy}" in finding.message) == ("fail", True)
    assert finding.mend == (
        "kafka-configs.sh --bootstrap-server fake:9092 --alter --topic _core-connect-offsets --add-config cleanup.policy=compact"
    )


def test_configs_without_an_order() -> None:
    assert "has 2 partitions" in found(configs=kept(partitions=2))["configs"].message


def test_made_again_under_a_worker_that_knows_connectors() -> None:
    finding = found(configs=kept(written=0))["configs"]
    assert finding.level == "fail"
    assert finding.message == "is empty: when its worker starts next, it knows no connector any more: cdc apply makes ours again"


def test_a_connector_that_is_made_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sources' connectors are made at the same time by `cdc up`."""
    topics = {f"_core-connect-{use}": kept(written=0) for use in ("configs", "offsets", "status")}
    kafka, connect = FakeKafka(topics), FakeConnect()
    made = ["shop-capture"]

    def states_then_made(names: Sequence[str]) -> Mapping[str, TopicState]:
        found = FakeKafka.states(kafka, names)
        monkeypatch.setattr(connect, "connectors", lambda: made)
        return found

    monkeypatch.setattr(connect, "connectors", lambda: [])
    monkeypatch.setattr(kafka, "states", states_then_made)
    assert {finding.level for finding in connect_topic_findings("core", connect, kafka)} == {"ok"}


def test_one_copy_on_three_brokers() -> None:
    assert {use: finding.level for use, finding in found(status=kept(copies=1)).items()} == {"status": "warn"}


def test_topics_of_another_name_or_cluster_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    (finding,) = connect_topic_findings("lake", FakeConnect(), FakeKafka())
    assert (finding.level, finding.mend) == ("warn", "CDC_LAKE_CONNECT_TOPICS=<configs>,<offsets>,<status>; or =none")
    monkeypatch.setenv("CDC_LAKE_CONNECT_TOPICS", "c,o,s")
    kafka = FakeKafka({"c": kept(), "o": kept()})
    gone = [finding for finding in connect_topic_findings("lake", FakeConnect(), kafka) if finding.level != "ok"]
    assert [(f.level, f.subject, f.message.split(":")[0]) for f in gone] == [("fail", "s", "is gone")]
    elsewhere = FakeConnect()
    elsewhere.cluster = "another"
    assert [f.level for f in connect_topic_findings("lake", elsewhere, kafka)] == ["warn"]
    monkeypatch.setenv("CDC_LAKE_CONNECT_TOPICS", "none")
    assert [*connect_topic_findings("lake", FakeConnect(), kafka)] == []
