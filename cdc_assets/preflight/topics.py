"""What must hold of a source's topics: whole logs, a schema history that begins at its beginning, and Connect's own."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from cdc_assets import names
from cdc_assets.errors import CdcAssetsError
from cdc_assets.preflight import connect_topics, mirror_rights
from cdc_assets.preflight.finding import Finding
from cdc_assets.registry.models import CapturedSource

if TYPE_CHECKING:
    from cdc_assets.resources.kafka import TopicState
    from cdc_assets.resources.platform import Platform

_FOREVER = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
# What Debezium makes the topic with: Java's largest number of milliseconds (KafkaSchemaHistory, 3.7.0).
_AS_GOOD = {"retention.ms": str(2**63 - 1)}


class TopicStatesCluster(Protocol):
    """What is asked of `KafkaCluster`."""

    @property
    def tool_options(self) -> str:
        """By which Kafka's own tools reach it."""

    def states(self, topics: Sequence[str]) -> Mapping[str, TopicState]:
        """Those that there are."""

    def topic_configs(self, names: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        """Every setting of each of the topics."""


def of_platform(platform: Platform, source: CapturedSource) -> list[Finding]:
    """All of the core's and the lake's; a cluster that cannot be reached is one, and so is a right that is lacking."""
    found: list[Finding] = []
    try:
        core, lake = platform.core_kafka(source.cluster), platform.lake_kafka()
        found += mirror_rights.findings(source, core, lake) if names.is_mirrored(source) else ()
        return [
            *found,
            *findings(source, core, lake),
            *connect_topics.findings(source.cluster, platform.core_connect(source.cluster), core),
            *(connect_topics.findings("lake", platform.lake_connect(), lake) if names.is_mirrored(source) else ()),
        ]
    except CdcAssetsError as error:
        return [*found, Finding("topics", "warn", "Kafka", f"cannot be told: {error}", "mend that first")]


def findings(source: CapturedSource, core: TopicStatesCluster, lake: TopicStatesCluster) -> Iterator[Finding]:
    """Of the topics that there are; those that are not are made as they must be."""
    captured = [names.topic(source, table) for table in source.tables]
    mirrored = [names.lake_topic(source, table) for table in source.tables]
    for cluster, topics in ((core, captured), (lake, mirrored)):
        for name, config in cluster.topic_configs(cluster.states(topics)).items():
            yield _whole(cluster, name, config["cleanup.policy"])
            if config.get("message.timestamp.type") == "LogAppendTime":
                yield _record_time(cluster, name)
    if names.has_schema_history(source):
        name = names.schema_history_topic(source)
        for state in core.states([name]).values():
            yield _history(source, core, state)


def _whole(cluster: TopicStatesCluster, name: str, policy: str) -> Finding:
    """Compaction takes the events away that bronze has not read, and no offset tells that they were there.

    https://kafka.apache.org/documentation/#compaction
    """
    if policy == "delete":
        return Finding("cleanup_policy", "ok", name, "keeps every event until it expires")
    message = f"has cleanup.policy={policy}: events of a key vanish before they are read, and leave no gap that could be told"
    return Finding("cleanup_policy", "fail", name, message, _alter(cluster, name, "cleanup.policy=delete"))


def _record_time(cluster: TopicStatesCluster, name: str) -> Finding:
    """A tombstone has Kafka's time alone. Stamped anew it falls into another minute than in the topic it was copied from.

    https://kafka.apache.org/documentation/#topicconfigs_message.timestamp.type
    """
    message = (
        "has message.timestamp.type=LogAppendTime: a tombstone that it stamps in another minute than the other cluster did is "
        "out of balance for the ledger, and the delay between topic and bronze is not told"
    )
    return Finding("record_time", "warn", name, message, _alter(cluster, name, "message.timestamp.type=CreateTime"))


def _history(source: CapturedSource, core: TopicStatesCluster, state: TopicState) -> Finding:
    """The finding about the topic of table definitions, which Debezium must read from its first record.

    https://debezium.io/documentation/reference/stable/connectors/mysql.html#mysql-schema-history-topic
    """
    begins = max((begin for begin, _ in state.ranges.values()), default=0)
    if begins > 0:
        message = f"its records below offset {begins} are gone: the connector cannot read its log with the definitions of then"
        # Debezium reads the tables' definitions of now into it: wrong when DDL came behind the stored offsets.
        mend = f"with no DDL since: capture: {{snapshot: recovery}}, cdc apply {source.name}, then take it out again"
        return Finding("schema_history", "fail", state.name, message, mend)
    config = core.topic_configs([state.name])[state.name]
    wrong = {key: config[key] for key, value in _FOREVER.items() if config[key] not in (value, _AS_GOOD.get(key))}
    if wrong:
        message = f"would lose its beginning: {', '.join(f'{k}={v}' for k, v in wrong.items())}"
        changes = ",".join(f"{key}={_FOREVER[key]}" for key in wrong)
        return Finding("schema_history", "fail", state.name, message, _alter(core, state.name, changes))
    return Finding("schema_history", "ok", state.name, "begins at its beginning and never expires")


def _alter(cluster: TopicStatesCluster, name: str, changes: str) -> str:
    return f"kafka-configs.sh {cluster.tool_options} --alter --topic {name} --add-config {changes}"
