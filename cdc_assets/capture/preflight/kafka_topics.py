"""What must hold of a source's topics: whole logs, a schema history that begins at its beginning, Connect's own three
topics, and the rights of the mirror's login on both clusters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from cdc_assets.capture.connectors.mirrormaker2 import rights_at_core, rights_at_lake
from cdc_assets.capture.preflight.inspection import Finding
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import CdcAssetsError
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource
from spark.errors import quantity
from spark.events.kafka_login import read_login

if TYPE_CHECKING:
    from cdc_assets.clients.kafka import TopicState

CONNECT_TOPICS_CHECK = "connect_topics"
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


def connect_topic_findings(cluster: str, connect: Connect, kafka: InternalTopicsCluster) -> Iterator[Finding]:
    """Of the Connect cluster called `core` or `lake`.

    Connect looks at them only when it starts, and refuses then (KAFKA-9216); a topic that is changed or lost under a running
    worker shows nothing before its next start, which then knows no connector, or lets each one begin anew.
    https://kafka.apache.org/documentation/#connect_running
    """
    setting = settings.variable(cluster, "CONNECT_TOPICS")
    declared = settings.lookup(setting)
    if declared == "none":
        return
    topics = names.connect_topics(cluster)
    if declared:
        topics = dict(zip(topics, (name.strip() for name in declared.split(",")), strict=False))
    # Before the topics: a connector that is created in between is in them.
    is_used = {"configs": bool(connect.connectors())}
    states = kafka.states([*topics.values()])
    if (not declared and not states) or connect.kafka_cluster_id() != kafka.cluster_id():
        message = (
            f"keeps its configs, offsets and status in topics that are not known at {kafka.bootstrap}: they are not looked at"
        )
        yield Finding(CONNECT_TOPICS_CHECK, "warn", connect.url, message, f"{setting}=<configs>,<offsets>,<status>; or =none")
        return
    for use, name in topics.items():
        yield _one(use, name, states.get(name), kafka, written=is_used.get(use, False))


def _one(use: str, name: str, state: TopicState | None, kafka: InternalTopicsCluster, *, written: bool) -> Finding:
    if state is None or (written and not any(end for _, end in state.ranges.values())):
        message = f"is {'gone' if state is None else 'empty'}: when its worker starts next, it {_LOST[use]}"
        mend = (
            "restart the workers, which make it again, then cdc apply" if state is None else "restart the workers, then cdc apply"
        )
        return Finding(
            CONNECT_TOPICS_CHECK, "fail", name, message, f"{mend}; connectors then begin anew: cdc preflight, cdc reconcile"
        )
    policy = kafka.topic_config(name)["cleanup.policy"]
    if policy != "compact":
        message = f"has cleanup.policy={policy}: what it holds expires, and its worker refuses to start with it"
        change = f"--alter --topic {name} --add-config cleanup.policy=compact"
        return Finding(CONNECT_TOPICS_CHECK, "fail", name, message, f"kafka-configs.sh {kafka.tool_options} {change}")
    if use == "configs" and len(state.ranges) != 1:
        several = quantity(len(state.ranges), "partition")
        message = f"has {several}: configs have no order across them, and its worker refuses to start with it"
        return Finding(
            CONNECT_TOPICS_CHECK, "fail", name, message, "stop the workers, make it again with 1 partition, start them, cdc apply"
        )
    copies, expected = kafka.replicas([name])[name], min(_COPIES, kafka.brokers())
    if copies < expected:
        message = f"is kept in {quantity(copies, 'copy')} on {expected} or more brokers: it is lost with one of them"
        return Finding(
            CONNECT_TOPICS_CHECK,
            "warn",
            name,
            message,
            f"kafka-reassign-partitions.sh: give {name} {quantity(expected, 'replica')}",
        )
    return Finding(
        CONNECT_TOPICS_CHECK, "ok", name, f"compacted, {quantity(len(state.ranges), 'partition')}, {quantity(copies, 'copy')}"
    )


MIRROR_RIGHTS_CHECK = "mirror_rights"
_SHOWN = 3


class GuardedCluster(Protocol):
    """What is asked of `KafkaCluster`."""

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses, as a client takes them."""

    @property
    def login(self) -> str:
        """The path of its client.properties; empty where it asks for none."""

    def states(self, topics: Sequence[str]) -> Mapping[str, TopicState]:
        """Those that there are."""

    def rights_lacking(self, wanted: Mapping[str, Sequence[str]]) -> Mapping[str, tuple[str, ...]]:
        """By topic the operations of those wanted that the login may not do."""


def mirror_right_findings(source: BaseSource, core: GuardedCluster, lake: GuardedCluster) -> Iterator[Finding]:
    """Of both clusters; none where git deploys the mirror, with users of its own, or where no login is asked for.

    What the login may do of which `cdc apply` makes the mirror: to read the core's topics, to make and write the lake's.

    MirrorMaker tries again and again where a right is lacking, and its connector is RUNNING meanwhile. So the brokers are asked
    before it is made. https://kafka.apache.org/documentation/#security_authz_primitives
    """
    if source.managed_by == "gitops":
        return
    for cluster, rights in ((core, rights_at_core(source)), (lake, rights_at_lake(source))):
        if cluster.login:
            yield from _of_cluster(cluster, rights)


def _of_cluster(cluster: GuardedCluster, rights_of: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    lacking = cluster.rights_lacking(rights_of)
    # What has records is written by somebody: the file on the workers may hold another user.
    seen = [topic for topic in lacking if "Write" in lacking[topic] and "Describe" not in lacking[topic]]
    written = {name for name, state in cluster.states(seen).items() if any(end for _, end in state.ranges.values())}
    by_rights: dict[tuple[str, ...], list[str]] = {}
    for topic, operations in sorted(lacking.items()):
        if topic not in written:
            by_rights.setdefault(tuple(operations), []).append(topic)
    for rights, topics in by_rights.items():
        yield _finding(cluster, rights, topics)
    if not by_rights:
        yield Finding(MIRROR_RIGHTS_CHECK, "ok", cluster.bootstrap, f"{cluster.login} may do what the mirror does there")


def _finding(cluster: GuardedCluster, rights: Sequence[str], topics: Sequence[str]) -> Finding:
    shown = ", ".join(topics[:_SHOWN]) + (f" and {quantity(len(topics) - _SHOWN, 'topic')} more" if topics[_SHOWN:] else "")
    message = (
        f"at {cluster.bootstrap}: {', '.join(rights)} {'are' if rights[1:] else 'is'} not granted to the login of "
        f"{cluster.login}, which cdc apply gives to the mirror: its connector would be RUNNING and carry nothing. "
        "Where the workers' file at that path holds another user, grant it to that one"
    )
    # Of a password its user; a certificate's is the broker's to name (ssl.principal.mapping.rules).
    user = read_login(cluster.login).jaas()
    principal = f"User:{user.options['username']}" if user else "User:<of the certificate>"
    operations = " ".join(f"--operation {right}" for right in rights)
    named = " ".join(f"--topic {topic}" for topic in topics)
    mend = (
        f"as an administrator: kafka-acls.sh --bootstrap-server {cluster.bootstrap} --command-config ADMIN.properties "
        f"--add --allow-principal '{principal}' {operations} {named}"
    )
    return Finding(MIRROR_RIGHTS_CHECK, "fail", shown, message, mend)


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


def platform_topic_findings(chain: Chain[CapturedSource]) -> list[Finding]:
    """All of the core's and the lake's; a cluster that cannot be reached is one, and so is a right that is lacking."""
    mirror_findings: list[Finding] = []
    try:
        core, lake = chain.platform.core_kafka(chain.source.cluster), chain.platform.lake_kafka()
        mirror_findings += mirror_right_findings(chain.source, core, lake) if names.is_mirrored(chain.source) else ()
        return [
            *mirror_findings,
            *topic_findings(chain.source, core, lake),
            *connect_topic_findings(chain.source.cluster, chain.platform.core_connect(chain.source.cluster), core),
            *(connect_topic_findings("lake", chain.platform.lake_connect(), lake) if names.is_mirrored(chain.source) else ()),
        ]
    except CdcAssetsError as error:
        return [*mirror_findings, Finding("topics", "warn", "Kafka", f"cannot be told: {error}", "mend that first")]


def topic_findings(source: CapturedSource, core: TopicStatesCluster, lake: TopicStatesCluster) -> Iterator[Finding]:
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
