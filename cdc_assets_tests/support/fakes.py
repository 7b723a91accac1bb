"""Small classes with the interface of the real thing, for tests that need no service."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from cdc_assets.clients.kafka import Offsets, Record, TopicState
from cdc_assets.clients.platform import Platform


@dataclass
class FakeTopic:
    """Records by partition; a None in the log is a control record, which takes an offset and is never delivered."""

    topic_id: str
    logs: dict[int, list[tuple[bytes | None, bytes | None] | None]]
    begins: dict[int, int] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=lambda: {"cleanup.policy": "delete", "retention.ms": "604800000"})
    copies: int = 3


class FakeKafka:
    """One cluster in memory: `states`, `high_watermarks` and `records` as `KafkaCluster` has them."""

    def __init__(self, topics: Mapping[str, FakeTopic] | None = None) -> None:
        self.bootstrap, self.login, self.tool_options = "fake:9092", "", "--bootstrap-server fake:9092"
        self.topics: dict[str, FakeTopic] = dict(topics or {})
        self.read: list[tuple[str, int, int]] = []
        self.asked_configs = self.group_reads = 0

    def states(self, topics: Sequence[str]) -> dict[str, TopicState]:
        found = {name: self.topics[name] for name in topics if name in self.topics}
        return {
            name: TopicState(name, topic.topic_id, {p: (topic.begins.get(p, 0), len(log)) for p, log in topic.logs.items()})
            for name, topic in found.items()
        }

    def await_state(self, topic: str, *, deadline: float) -> TopicState:
        return self.states([topic])[topic]

    def topic_config(self, name: str) -> dict[str, str]:
        return self.topics[name].config

    def topic_configs(self, names: Collection[str]) -> dict[str, dict[str, str]]:
        self.asked_configs += 1
        return {name: self.topics[name].config for name in names}

    def replicas(self, topics: Sequence[str]) -> dict[str, int]:
        return {name: self.topics[name].copies for name in topics if name in self.topics}

    def brokers(self) -> int:
        return 3

    def cluster_id(self) -> str:
        return "fake"

    def high_watermarks(self, topics: Sequence[str]) -> Offsets:
        return {name: state.ends for name, state in self.states(topics).items()}

    def records_of(
        self, topics: Mapping[str, Mapping[int, tuple[int, int]]], *, deadline: float = 0
    ) -> Iterator[tuple[str, Record]]:
        self.group_reads += 1
        for topic, ranges in topics.items():
            yield from ((topic, record) for record in self.records(topic, ranges))

    def records(self, topic: str, ranges: Mapping[int, tuple[int, int]], *, deadline: float = 0) -> Iterator[Record]:
        for partition, (start, end) in ranges.items():
            for offset in range(start, end):
                entry = self.topics[topic].logs[partition][offset]
                if entry is not None:
                    self.read.append((topic, partition, offset))
                    yield Record(partition, offset, 0, entry[0], entry[1], ())


class FakeTopicWatch:
    """Stands where the consumer of continuous mode does: `news` is told once."""

    def __init__(self) -> None:
        self.jumps = 0
        self.news = False

    def watch(self, _: Mapping[str, Mapping[int, int]], *, jump: bool = False) -> None:
        self.jumps += jump

    def wait(self, _: float) -> bool:
        found, self.news = self.news, False
        return found

    def close(self) -> None:
        """As the real one."""


def without_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both clusters of the platform are empty fakes, and nobody answers for their Connect workers."""
    for cluster in ("core_kafka", "lake_kafka"):
        monkeypatch.setattr(Platform, cluster, lambda *_: FakeKafka())
    for cluster in ("CORE", "LAKE"):
        monkeypatch.setenv(f"CDC_{cluster}_CONNECT", "http://127.0.0.1:9")
        monkeypatch.setenv(f"CDC_{cluster}_CONNECT_TOPICS", "none")
