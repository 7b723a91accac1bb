"""A captured table's topic on the core cluster, made as the registry declares it."""

from __future__ import annotations

from cdc_assets.connectors.debezium_common import retention_ms
from cdc_assets.registry.models import CapturedSource
from cdc_assets.resources.kafka import KafkaCluster, TopicState


def make_topic(cluster: KafkaCluster, source: CapturedSource, name: str, *, deadline: float) -> TopicState:
    """The topic, there within `deadline` seconds: partitions, retention and replicas are the source's."""
    declared = source.topics
    cluster.ensure_topic(
        name,
        partitions=declared.partitions,
        retention_ms=int(retention_ms(source)),
        replication_factor=declared.replication_factor,
    )
    return cluster.await_state(name, deadline=deadline)
