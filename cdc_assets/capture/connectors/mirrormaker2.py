"""The MirrorMaker 2 connectors of a source: core topics in, the lake's topics out, exactly once; checkpoints and heartbeats.

They run as plain connectors on the lake's Connect cluster, as Strimzi runs them. The consumer must read committed
records only, else the source connector does not offer exactly-once support (apache/kafka#12366); the other two offer none,
and what they write is right when it is written twice.
Options: https://kafka.apache.org/documentation/#mirrormakerconfigs
"""

from __future__ import annotations

import re
from datetime import timedelta

from cdc_assets.capture.connectors.debezium_settings import cluster_login
from cdc_assets.capture.connectors.setting_overrides import with_settings
from cdc_assets.registry import names, settings
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.source_settings import Checkpoints

_IDENTITY = {
    "default": {},
    "identity": {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"},
}
_BYTES = {
    f"{record_field}.converter": "org.apache.kafka.connect.converters.ByteArrayConverter"
    for record_field in ("key", "value", "header")
}


READ = ("Read", "Describe", "DescribeConfigs")
"""What a client may do on a topic that it reads, in Kafka's words (https://kafka.apache.org/documentation/#operations_in_kafka)."""
INTERNAL = ("Read", "Write", "Describe", "DescribeConfigs", "Create")
"""The same of a topic that a Connect worker, or a connector, keeps for itself."""
_OWN_COPY = ("Read", "Write", "Describe", "DescribeConfigs", "Create", "Alter", "AlterConfigs")


def rights_at_core(source: BaseSource) -> dict[str, tuple[str, ...]]:
    """By topic of the core cluster the operations that the mirror's login needs."""
    return {names.topic(source, table): READ for table in source.tables}


def rights_at_lake(source: BaseSource) -> dict[str, tuple[str, ...]]:
    """By topic of the lake's cluster; the copies are made, written, and given the settings of what they copy."""
    alias = source.mirror.alias_of(source.cluster)
    own = [f"mm2-offset-syncs.{alias}.internal"]
    own += [f"{alias}.checkpoints.internal"] if source.mirror.checkpoints else []
    own += ["heartbeats"] if source.mirror.heartbeats else []
    return {names.lake_topic(source, table): _OWN_COPY for table in source.tables} | dict.fromkeys(own, INTERNAL)


def mirror_config(source: BaseSource) -> dict[str, str]:
    """The source connector's whole config, for exactly the declared tables' topics."""
    config = {
        "name": names.mirror_connector_name(source),
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        **_between(source),
        **_topics(source),
        "replication.factor": _replicas(source),
        # The core cluster is only read: nothing of ours is written there.
        "offset-syncs.topic.location": "target",
        "offset-syncs.topic.replication.factor": _replicas(source),
        "sync.topic.acls.enabled": "false",
        "sync.topic.configs.enabled": "true",
        "refresh.topics.interval.seconds": "5",
        # Else each mirror copies every topic `heartbeats` of the cluster, also a table's of another source, once more.
        "heartbeats.replication.enabled": "false",
        "consumer.isolation.level": "read_committed",
        "consumer.auto.offset.reset": "earliest",
        "exactly.once.support": "required",
        "transaction.boundary": "poll",
        **_BYTES,
    }
    return with_settings(config, source.mirror.settings, _patterns(source))


def checkpoint_config(source: BaseSource, wanted: Checkpoints) -> dict[str, str]:
    """The connector that tells where consumer groups of the core cluster stand in the copies."""
    every = str(max(1, int(wanted.every.total_seconds())))
    return {
        "name": names.checkpoint_connector_name(source),
        "connector.class": "org.apache.kafka.connect.mirror.MirrorCheckpointConnector",
        **_between(source),
        **_topics(source),
        "groups": ",".join(wanted.groups),
        "groups.exclude": "^$",
        "offset-syncs.topic.location": "target",
        "checkpoints.topic.replication.factor": _replicas(source),
        "emit.checkpoints.interval.seconds": every,
        "refresh.groups.interval.seconds": every,
        "sync.group.offsets.enabled": str(wanted.sync_offsets).lower(),
        "sync.group.offsets.interval.seconds": every,
        **_BYTES,
    }


def heartbeat_config(source: BaseSource, every: timedelta) -> dict[str, str]:
    """The connector that writes a mark at a rhythm: its age says how long nothing has been written."""
    return {
        "name": names.heartbeat_connector_name(source),
        "connector.class": "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector",
        **_between(source),
        "heartbeats.topic.replication.factor": _replicas(source),
        "emit.heartbeats.interval.seconds": str(max(1, int(every.total_seconds()))),
        **_BYTES,
    }


def _between(source: BaseSource) -> dict[str, str]:
    return {
        "tasks.max": "1",
        "source.cluster.alias": source.mirror.alias_of(source.cluster),
        "target.cluster.alias": names.LAKE,
        "source.cluster.bootstrap.servers": settings.address(settings.variable(source.cluster, "BOOTSTRAP")),
        "target.cluster.bootstrap.servers": settings.address("CDC_LAKE_BOOTSTRAP"),
        **cluster_login(source.cluster, "source.cluster."),
        **cluster_login("lake", "target.cluster."),
        **_IDENTITY[source.topics.replication],
    }


def _topics(source: BaseSource) -> dict[str, str]:
    return {"topics": ",".join(_patterns(source).values()), "topics.exclude": "^$"}


def _patterns(source: BaseSource) -> dict[str, str]:
    """Each topic, and the regular expression for it alone."""
    topics = sorted(names.topic(source, table) for table in source.tables)
    return {topic: re.escape(topic).replace(r"\-", "-") for topic in topics}


def _replicas(source: BaseSource) -> str:
    return str(source.topics.replication_factor or -1)
