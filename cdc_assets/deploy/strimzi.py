"""The registry as Strimzi's resources: KafkaConnector, KafkaMirrorMaker2, KafkaTopic and KafkaUser.

The connectors' configs are those that `cdc apply` uses. One mirror carries all sources: Strimzi names its connectors after
the clusters' aliases, so two mirrors from one cluster would be one. Rights name topics one by one, never a prefix that
another source may share; operations follow https://kafka.apache.org/documentation/#security_authz_primitives, and a
transactional producer needs Write and Describe on its transactional id (KIP-618).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cdc_assets.capture.connectors.debezium_settings import retention_ms
from cdc_assets.capture.connectors.declared_connectors import DeclaredConnector
from cdc_assets.capture.connectors.mirrormaker2 import INTERNAL, READ, rights_at_core, rights_at_lake
from cdc_assets.deploy.manifest import CAPTURE, MIRROR, Deployment, Manifest, StrimziCluster, manifest, secret_references
from cdc_assets.deploy.manifest import MIRROR as NAME
from cdc_assets.registry import names
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.field_types import parse_table
from cdc_assets.registry.kinds import kind_of
from cdc_assets.registry.names import kubernetes_name
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource
from cdc_assets.registry.table_declaration import Table

# Strimzi refuses these in `config`: they have fields of their own.
_CONNECTOR_FIELDS = ("name", "connector.class", "tasks.max")
HISTORY = "schema.history.internal.kafka.topic"


def kafka_connector(connector: DeclaredConnector, deployment: Deployment, *, state: str = "running") -> Manifest:
    """The connector's KafkaConnector. The operator restarts it seven times at most, then leaves it FAILED for a person to see."""
    config = secret_references(connector.config, deployment)
    if deployment.authentication == "tls":
        config |= _logins(config, deployment)
    spec = {
        "class": config["connector.class"],
        "tasksMax": int(config["tasks.max"]),
        "autoRestart": {"enabled": True, "maxRestarts": 7},
        "state": state,
        "config": {key: value for key, value in config.items() if key not in _CONNECTOR_FIELDS},
    }
    cluster = deployment.core if connector.cluster == "core" else deployment.lake
    return manifest("KafkaConnector", connector.name, deployment, spec, cluster=cluster.connect)


def name_warnings(connectors: Iterable[DeclaredConnector]) -> list[str]:
    """A sentence for each connector that Strimzi would give another name, since Kubernetes does not take ours."""
    return [
        f"{connector.name}: Kubernetes takes no such name, Strimzi calls this connector {called}; checks, assets and "
        f"cdc onboard --watch look for {connector.name}, and do not know it, unless the source declares managed_by: gitops"
        for connector in connectors
        if (called := kubernetes_name(connector.name)) != connector.name
    ]


def _logins(config: Mapping[str, str], deployment: Deployment) -> dict[str, str]:
    # The worker's login is not passed on to clients that a connector makes by itself: those of Debezium's schema history, and
    # MirrorMaker's of both clusters. They take certificates as text (KIP-651), from the KafkaUser's Secret and the cluster's.
    # https://debezium.io/documentation/reference/stable/connectors/mysql.html (pass-through properties of the history's clients)
    core, lake = (CAPTURE, deployment.core), (f"{MIRROR}-lake", deployment.lake)
    made = {
        "schema.history.internal.consumer.": (HISTORY, *core),
        "schema.history.internal.producer.": (HISTORY, *core),
        "source.cluster.": ("source.cluster.bootstrap.servers", f"{MIRROR}-core", deployment.core),
        "target.cluster.": ("target.cluster.bootstrap.servers", *lake),
    }
    logins: dict[str, str] = {}
    for prefix, (setting, user, cluster) in made.items():
        secrets = f"${{secrets:{deployment.namespace}/"
        login = {
            "security.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": f"{secrets}{user}:user.crt}}",
            "ssl.keystore.key": f"{secrets}{user}:user.key}}",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": f"{secrets}{cluster.kafka}-cluster-ca-cert:ca.crt}}",
        }
        logins |= {f"{prefix}{key}": value for key, value in login.items()} if setting in config else {}
    return logins


_MIRROR_FIELDS = (
    "name",
    "connector.class",
    "tasks.max",
    "topics",
    "topics.exclude",
    "source.cluster.alias",
    "target.cluster.alias",
)


def kafka_mirror_maker_2(mirrors: Sequence[DeclaredConnector], deployment: Deployment) -> Manifest:
    """One KafkaMirrorMaker2 for the mirrors of all sources, in the shape of Strimzi's v1 API.
    Raises RefusalError: when their configs differ in more than their topics; `mirror: connector` can keep them apart."""
    configs = [secret_references(mirror.config, deployment) for mirror in mirrors]
    common = _common(mirrors, configs)
    topics = sorted({topic for config in configs for topic in config["topics"].split(",")})
    first = configs[0]
    spec = {
        "replicas": deployment.mirror_replicas,
        "target": _target(first["target.cluster.alias"], deployment),
        "mirrors": [
            {
                "source": _cluster(first["source.cluster.alias"], deployment.core, deployment, "core"),
                "sourceConnector": {
                    "tasksMax": int(first["tasks.max"]),
                    "autoRestart": {"enabled": True, "maxRestarts": 7},
                    "state": "running",
                    "config": common,
                },
                # MirrorMaker matches a whole name; the anchors hold for whoever tries the pattern elsewhere.
                "topicsPattern": f"^(?:{'|'.join(topics)})$",
                "topicsExcludePattern": first["topics.exclude"],
            }
        ],
    }
    return manifest("KafkaMirrorMaker2", NAME, deployment, spec)


def _target(alias: str, deployment: Deployment) -> dict[str, Any]:
    return {
        **_cluster(alias, deployment.lake, deployment, "lake"),
        "groupId": NAME,
        "configStorageTopic": f"__{NAME}-configs",
        "offsetStorageTopic": f"__{NAME}-offsets",
        "statusStorageTopic": f"__{NAME}-status",
        "config": {
            "config.storage.replication.factor": -1,
            "offset.storage.replication.factor": -1,
            "status.storage.replication.factor": -1,
            "exactly.once.source.support": "enabled",
            "plugin.discovery": "service_load",
        },
    }


def _common(mirrors: Sequence[DeclaredConnector], configs: Sequence[dict[str, str]]) -> dict[str, str]:
    def rest(config: dict[str, str]) -> dict[str, str]:
        return {k: v for k, v in config.items() if k not in _MIRROR_FIELDS and not k.endswith(".cluster.bootstrap.servers")}

    common = rest(configs[0])
    for mirror, config in zip(mirrors, configs, strict=True):
        if rest(config) != common:
            differing = sorted(key for key in {*common, *rest(config)} if common.get(key) != rest(config).get(key))
            raise RefusalError(
                f"sources {mirrors[0].source.name} and {mirror.source.name} are mirrored differently ({', '.join(differing)}), "
                "and one KafkaMirrorMaker2 has one setting: make them equal, or set `mirror: connector` in the deployment"
            )
    return common


def _cluster(alias: str, cluster: StrimziCluster, deployment: Deployment, role: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"alias": alias, "bootstrapServers": cluster.bootstrap}
    if deployment.authentication == "tls":
        certificate = {"secretName": f"{NAME}-{role}", "certificate": "user.crt", "key": "user.key"}
        ca = {"secretName": f"{cluster.kafka}-cluster-ca-cert", "pattern": "*.crt"}
        entry |= {"tls": {"trustedCertificates": [ca]}, "authentication": {"type": "tls", "certificateAndKey": certificate}}
    return entry


# A topic is data: taking its manifest away must never delete it, neither by a prune nor with the application.
KEPT = {"argocd.argoproj.io/sync-options": "Prune=false,Delete=false"}


def kafka_topics(source: CapturedSource, deployment: Deployment) -> list[Manifest]:
    """A KafkaTopic for each table of the source."""
    return [_topic(source, table, deployment) for table in source.tables]


def _topic(source: CapturedSource, table: Table, deployment: Deployment) -> Manifest:
    topic = names.topic(source, table)
    spec = {
        "topicName": topic,
        "partitions": source.topics.partitions,
        **({"replicas": source.topics.replication_factor} if source.topics.replication_factor else {}),
        "config": {"cleanup.policy": "delete", "retention.ms": int(retention_ms(source, table))},
    }
    return manifest("KafkaTopic", topic, deployment, spec, cluster=deployment.core.kafka, annotations=KEPT)


_WRITE = ("Write", "Describe", "DescribeConfigs", "Create")

Acl = dict[str, Any]


def kafka_users(sources: Sequence[BaseSource], deployment: Deployment) -> list[Manifest]:
    """A KafkaUser for each component and cluster that it talks to, with the rights that it needs there and no others."""
    mirrored = [source for source in sources if names.is_mirrored(source)]
    captured = [source.captured for source in sources if source.captured]
    at_core = {topic: operations for source in mirrored for topic, operations in rights_at_core(source).items()}
    lake = [names.lake_topic(source, table) for source in sources for table in source.tables]
    # Nothing is committed, but a consumer with a group looks for its coordinator.
    own = _acl("group", "cdc_assets", ("Read", "Describe"), "prefix")
    spark = _acl("group", "spark-kafka-", ("Read", "Describe"), "prefix")
    # Of the consumer groups whose places MirrorMaker carries over.
    groups = {group for source in mirrored if source.mirror.checkpoints for group in source.mirror.checkpoints.groups}
    carried = [_acl("group", group, ("Describe",)) for group in sorted(groups)]
    read = [*at_core, *_marks(captured), *_histories(captured), *_marker_tables(captured)]
    users = {
        ("cdc-capture", "core"): _capture_acls(captured, deployment),
        (MIRROR, "core"): [*_grants(at_core), *carried],
        (MIRROR, "lake"): _mirror_acls(mirrored, deployment),
        ("cdc-assets", "core"): [*_topics(read, READ), own],
        ("cdc-assets", "lake"): [*_topics(lake, READ), own, spark],
    }
    return [_user(name, role, acls, deployment) for (name, role), acls in users.items() if acls]


def _capture_acls(captured: Sequence[CapturedSource], deployment: Deployment) -> list[Acl]:
    written = [names.topic(source, table) for source in captured for table in source.tables]
    beats = [names.heartbeat_topic(source) for source in captured]
    captured_with_signals = [names.signal_topic(source) for source in captured if source.asked]
    signals = [names.topic_of(s, parse_table(s.reconciliation.signals)) for s in captured if s.reconciliation.signals]
    recovering = sorted(names.schema_history_group(source) for source in captured if names.has_schema_history(source))
    return [
        *_topics([*written, *_marks(captured), *beats, *captured_with_signals, *_marker_tables(captured), *signals], _WRITE),
        *_topics(_histories(captured), INTERNAL),
        *(_acl("group", group, ("Read", "Describe")) for group in recovering),
        *_worker(deployment.core.connect, f"_{deployment.core.connect}"),
    ]


def _marks(captured: Sequence[CapturedSource]) -> list[str]:
    return [name for source in captured for name in (names.marker_topic(source), names.notification_topic(source))]


def _marker_tables(captured: Sequence[CapturedSource]) -> list[str]:
    # Where a database has a table for markers, and no message in its log.
    return [names.topic_of(s, parse_table(s.reconciliation.marker)) for s in captured if s.reconciliation.marker]


def _histories(captured: Sequence[CapturedSource]) -> list[str]:
    topics = [names.schema_history_topic(source) for source in captured if names.has_schema_history(source)]
    temporary = [source for source in captured if kind_of(source).binlog]
    return topics + [names.temporary_schema_history_topic(source) for source in temporary]


def _mirror_acls(mirrored: Sequence[BaseSource], deployment: Deployment) -> list[Acl]:
    needed = {topic: operations for source in mirrored for topic, operations in rights_at_lake(source).items()}
    own_group = MIRROR if deployment.mirror == "mirrormaker2" else deployment.lake.connect
    prefix = f"__{MIRROR}" if deployment.mirror == "mirrormaker2" else f"_{own_group}"
    return [*_grants(needed), *_worker(own_group, prefix)]


def _user(name: str, role: str, acls: list[Acl], deployment: Deployment) -> Manifest:
    cluster = deployment.core if role == "core" else deployment.lake
    spec = {"authentication": {"type": "tls"}, "authorization": {"type": "simple", "acls": acls}}
    return manifest("KafkaUser", f"{name}-{role}", deployment, spec, cluster=cluster.kafka)


def _worker(group: str, prefix: str) -> list[Acl]:
    return [
        *_topics([f"{prefix}-{what}" for what in ("configs", "offsets", "status")], INTERNAL),
        _acl("group", group, ("Read", "Describe")),
        # Connect's leader writes with this id, its tasks with those below (KIP-618).
        _acl("transactionalId", f"connect-cluster-{group}", ("Write", "Describe")),
        _acl("transactionalId", f"{group}-", ("Write", "Describe"), "prefix"),
    ]


def _topics(topics: Iterable[str], operations: Sequence[str]) -> list[Acl]:
    return [_acl("topic", topic, operations) for topic in sorted(set(topics))]


def _grants(needed: Mapping[str, Sequence[str]]) -> list[Acl]:
    return [_acl("topic", topic, operations) for topic, operations in sorted(needed.items())]


def _acl(kind: str, name: str, operations: Sequence[str], pattern: str = "literal") -> Acl:
    return {"resource": {"type": kind, "name": name, "patternType": pattern}, "operations": list(operations)}
