"""What must hold of the three topics in which Connect keeps its configs, offsets and status.

Connect looks at them only when it starts, and refuses then (KAFKA-9216); a topic that is changed or lost under a running
worker shows nothing before its next start, which then knows no connector, or lets each one begin anew.
https://kafka.apache.org/documentation/#connect_running
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from cdc_assets import names, settings
from cdc_assets.preflight.finding import Finding
from cdc_assets.quantity import quantity

if TYPE_CHECKING:
    from cdc_assets.resources.kafka import TopicState

CHECK = "connect_topics"
_COPIES = 3
_LOST = {
    "configs": "knows no connector any more: cdc apply makes ours again",
    "offsets": "lets every connector begin anew, or behind what it has not read",
    "status": "shows no state until each connector has told its own again",
}


class InternalTopicsCluster(Protocol):
    """What is asked of `KafkaCluster`."""

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses, as a client takes them."""

    @property
    def tool_options(self) -> str:
        """By which Kafka's own tools reach it."""

    def states(self, topics: Sequence[str]) -> Mapping[str, TopicState]:
        """Those that there are."""

    def topic_config(self, name: str) -> Mapping[str, str]:
        """Every setting of the topic."""

    def replicas(self, topics: Sequence[str]) -> Mapping[str, int]:
        """Copies of the worst partition."""

    def brokers(self) -> int:
        """How many there are."""

    def cluster_id(self) -> str:
        """The id of the Kafka cluster that these workers use."""


class Connect(Protocol):
    """What is asked of `ConnectClient`."""

    @property
    def url(self) -> str:
        """The address of Connect's REST interface."""

    def connectors(self) -> list[str]:
        """The names of all connectors of these workers."""

    def kafka_cluster_id(self) -> str:
        """Of the cluster that has its topics."""


def findings(cluster: str, connect: Connect, kafka: InternalTopicsCluster) -> Iterator[Finding]:
    """Of the Connect cluster called `core` or `lake`."""
    setting = settings.variable(cluster, "CONNECT_TOPICS")
    declared = settings.lookup(setting)
    if declared == "none":
        return
    topics = _topics_by_role(declared) if declared else names.connect_topics(cluster)
    # Before the topics: a connector that is created in between is in them.
    held = {"configs": bool(connect.connectors())}
    found = kafka.states([*topics.values()])
    if (not declared and not found) or connect.kafka_cluster_id() != kafka.cluster_id():
        message = (
            f"keeps its configs, offsets and status in topics that are not known at {kafka.bootstrap}: they are not looked at"
        )
        yield Finding(CHECK, "warn", connect.url, message, f"{setting}=<configs>,<offsets>,<status>; or =none")
        return
    for use, name in topics.items():
        yield _one(use, name, found.get(name), kafka, written=held.get(use, False))


def _topics_by_role(text: str) -> dict[str, str]:
    return dict(zip(names.connect_topics(""), (part.strip() for part in text.split(",")), strict=False))


def _one(use: str, name: str, state: TopicState | None, kafka: InternalTopicsCluster, *, written: bool) -> Finding:
    if state is None or (written and not any(end for _, end in state.ranges.values())):
        message = f"is {'gone' if state is None else 'empty'}: when its worker starts next, it {_LOST[use]}"
        mend = (
            "restart the workers, which make it again, then cdc apply" if state is None else "restart the workers, then cdc apply"
        )
        return Finding(CHECK, "fail", name, message, f"{mend}; connectors then begin anew: cdc preflight, cdc reconcile")
    policy = kafka.topic_config(name)["cleanup.policy"]
    if policy != "compact":
        message = f"has cleanup.policy={policy}: what it holds expires, and its worker refuses to start with it"
        change = f"--alter --topic {name} --add-config cleanup.policy=compact"
        return Finding(CHECK, "fail", name, message, f"kafka-configs.sh {kafka.tool_options} {change}")
    if use == "configs" and len(state.ranges) != 1:
        several = quantity(len(state.ranges), "partition")
        message = f"has {several}: configs have no order across them, and its worker refuses to start with it"
        return Finding(CHECK, "fail", name, message, "stop the workers, make it again with 1 partition, start them, cdc apply")
    copies, wanted = kafka.replicas([name])[name], min(_COPIES, kafka.brokers())
    if copies < wanted:
        message = f"is kept in {quantity(copies, 'copy')} on {wanted} or more brokers: it is lost with one of them"
        return Finding(CHECK, "warn", name, message, f"kafka-reassign-partitions.sh: give {name} {quantity(wanted, 'replica')}")
    return Finding(CHECK, "ok", name, f"compacted, {quantity(len(state.ranges), 'partition')}, {quantity(copies, 'copy')}")
