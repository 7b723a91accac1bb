"""The MirrorMaker 2 source connector of a source: core topics in, the lake's topics out, exactly once.

Runs as a plain connector on the lake's Connect cluster, as Strimzi runs it. The consumer must read committed
records only, else the connector does not offer exactly-once support (apache/kafka#12366).
Options: https://kafka.apache.org/documentation/#mirrormakerconfigs
"""

from __future__ import annotations

import re

from cdc_assets import names, settings
from cdc_assets.registry.models import BaseSource

_IDENTITY = {
    "default": {},
    "identity": {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"},
}


def mirror_config(source: BaseSource) -> dict[str, str]:
    """The connector's whole config, for exactly the declared tables' topics."""
    core = settings.address("CDC_CORE_BOOTSTRAP")
    lake = settings.address("CDC_LAKE_BOOTSTRAP")
    topics = sorted(names.topic(source, table) for table in source.tables)
    return {
        "name": names.mirror_connector_name(source),
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "tasks.max": "1",
        "source.cluster.alias": names.CORE_ALIAS,
        "target.cluster.alias": "lake",
        "source.cluster.bootstrap.servers": core,
        "target.cluster.bootstrap.servers": lake,
        "topics": ",".join(re.escape(topic).replace(r"\-", "-") for topic in topics),
        "topics.exclude": "^$",
        **_IDENTITY[source.topics.replication],
        "replication.factor": str(source.topics.replication_factor or -1),
        "offset-syncs.topic.replication.factor": str(source.topics.replication_factor or -1),
        # The core cluster is only read: nothing of ours is written there.
        "offset-syncs.topic.location": "target",
        "sync.topic.acls.enabled": "false",
        "sync.topic.configs.enabled": "true",
        "refresh.topics.interval.seconds": "5",
        "consumer.isolation.level": "read_committed",
        "consumer.auto.offset.reset": "earliest",
        "exactly.once.support": "required",
        "transaction.boundary": "poll",
        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "header.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    }
