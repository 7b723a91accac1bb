"""A repository that `cdc render` writes to, and what Strimzi's operators do with it, done by hand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka.admin import AdminClient, NewTopic

from cdc_assets.registry import names
from cdc_assets_tests.support.live.cdc import Cdc


@dataclass
class Repository:
    """What `cdc render` writes, and the operators that bring Kafka and Connect to it; `capture` is the one connector of it."""

    cdc: Cdc
    folder: Path
    capture: str

    def __post_init__(self) -> None:
        clusters = {"core": self.cdc.live.bootstrap, "lake": self.cdc.lake.bootstrap}
        document: dict[str, Any] = {
            name: {"kafka": name, "connect": f"{name}-connect", "bootstrap": bootstrap} for name, bootstrap in clusters.items()
        }
        self.deployment.write_text(yaml.safe_dump({**document, "authentication": "none"}))

    @property
    def deployment(self) -> Path:
        return self.folder / "deployment.yaml"

    def render(self) -> None:
        self.cdc("render", "--target", "strimzi", "--out", str(self.folder), "--deployment", str(self.deployment))

    def manifests(self, kind: str) -> list[dict[str, Any]]:
        files = sorted((self.folder / "strimzi").rglob("*.yaml"))
        return [each for file in files for each in yaml.safe_load_all(file.read_text()) if each["kind"] == kind]

    def sync(self) -> None:
        """As Strimzi's operators do it: topics are made and never removed, connectors are made, changed and removed."""
        admin = AdminClient({"bootstrap.servers": self.cdc.live.bootstrap})
        there = admin.list_topics(timeout=60).topics
        wanted = [each["spec"] for each in self.manifests("KafkaTopic")]
        new = [
            NewTopic(spec["topicName"], spec["partitions"], 1, config={k: str(v) for k, v in spec["config"].items()})
            for spec in wanted
            if spec["topicName"] not in there
        ]
        for done in (admin.create_topics(new) if new else {}).values():
            done.result()
        captures = [self._capture(each) for each in self.manifests("KafkaConnector")]
        mirrors = [self._mirror(each["spec"]) for each in self.manifests("KafkaMirrorMaker2")]
        for connect, configs, ours in (
            (self.cdc.live.connect, captures, self.capture),
            (self.cdc.lake.connect, mirrors, names.SHARED_MIRROR),
        ):
            for config in configs:
                connect.put_config(config["name"], config)
                connect.wait_running(config["name"], hopeless=lambda: True)
            if ours not in {config["name"] for config in configs}:
                connect.delete(ours)

    def _capture(self, connector: dict[str, Any]) -> dict[str, str]:
        spec, name = connector["spec"], connector["metadata"]["name"]
        capture = {"connector.class": spec["class"], "tasks.max": str(spec["tasksMax"]), **spec["config"]}
        assert capture["database.password"] == "${secrets:kafka/cdc-secrets:live}"
        return {"name": name, **capture}

    def _mirror(self, spec: dict[str, Any]) -> dict[str, str]:
        (mirror,) = spec["mirrors"]
        own = mirror["sourceConnector"]
        ends = {"source": mirror["source"], "target": spec["target"]}
        return {
            "name": f"{ends['source']['alias']}->{ends['target']['alias']}.MirrorSourceConnector",
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "tasks.max": str(own["tasksMax"]),
            "topics": mirror["topicsPattern"],
            "topics.exclude": mirror["topicsExcludePattern"],
            **{f"{end}.cluster.alias": about["alias"] for end, about in ends.items()},
            **{f"{end}.cluster.bootstrap.servers": about["bootstrapServers"] for end, about in ends.items()},
            **own["config"],
        }
