"""Answers of Connect and Kafka that are written down: a connector of others with its topics, and its mirror."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from cdc_assets.clients.connector_states import ConnectorOverview, ConnectorStatus
from cdc_assets.clients.kafka import Record, TopicState

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
MIRROR = {
    "name": "mm-data-lake-v4",
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "source.cluster.alias": "onprem",
    "target.cluster.alias": "data-lake",
    "source.cluster.bootstrap.servers": "core:9092",
    "target.cluster.bootstrap.servers": "lake:9092",
    "topics": r"erp-prod\..*",
    "consumer.isolation.level": "read_committed",
    "key.converter": BYTES,
    "value.converter": BYTES,
    "header.converter": BYTES,
}
EVENT = json.dumps({"op": "c", "source": {"lsn": 1}, "after": {"id": 1}}).encode()


class Worker:
    """A Connect cluster of one connector."""

    def __init__(self, config: Mapping[str, str] | None, defaults: Mapping[str, str]) -> None:
        self.found, self.url, self._defaults = config, "http://connect", defaults

    def config(self, name: str) -> Mapping[str, str] | None:
        return self.found if self.found and self.found["name"] == name else None

    def overview(self) -> dict[str, ConnectorOverview]:
        return {self.found["name"]: ConnectorOverview(self.found["name"], "source", dict(self.found), None)} if self.found else {}

    def status(self, name: str) -> ConnectorStatus:
        return ConnectorStatus.parse(name, {"connector": {"state": "RUNNING"}, "tasks": [{"id": 0, "state": "RUNNING"}]})

    def offsets(self, _: str) -> list[dict[str, Any]]:
        return [{"partition": {"server": "erp-prod"}, "offset": {"lsn": 42}}]

    def default_values(self, plugin: str) -> Mapping[str, str]:
        return {} if "mirror" in plugin else self._defaults

    def password_keys(self, _: str) -> frozenset[str]:
        return frozenset({"database.password"})


class Cluster:
    """Topics of one record each; the first offset of what has been `cut` is gone."""

    bootstrap = "kafka:9092"

    def __init__(self, *topics: str, cut: int = 0, policy: str = "delete", retention: str = "604800000") -> None:
        self._topics, self._begin = topics, cut
        self._config = {"cleanup.policy": policy, "retention.ms": retention}

    def states(self, topics: list[str]) -> dict[str, TopicState]:
        return {name: TopicState(name, "id", {0: (self._begin, self._begin + 1)}) for name in topics if name in self._topics}

    def topic_configs(self, topics: list[str]) -> dict[str, dict[str, str]]:
        return dict.fromkeys(topics, self._config)

    def records(self, _: str, ranges: Mapping[int, tuple[int, int]]) -> list[Record]:
        return [Record(0, ranges[0][0], 0, b"{}", EVENT, ())]

    def existing(self, topics: list[str]) -> set[str]:
        return {name for name in topics if name in self._topics}


class Stack:
    """A platform of these parts; `defaults` are those of the capturing connector's plugin."""

    def __init__(
        self,
        capture: Mapping[str, str],
        mirror: Mapping[str, str] | None,
        core: Cluster,
        lake: Cluster,
        *,
        defaults: Mapping[str, str],
    ) -> None:
        self._connects, self._clusters = (Worker(capture, defaults), Worker(mirror, {})), (core, lake)

    def core_connect(self, cluster: str) -> Worker:
        return self._connects[0]

    def lake_connect(self) -> Worker:
        return self._connects[1]

    def core_kafka(self, cluster: str) -> Cluster:
        return self._clusters[0]

    def lake_kafka(self) -> Cluster:
        return self._clusters[1]
