"""A captured table's topic on the core cluster, made as the registry declares it."""

from __future__ import annotations

from cdc_assets import names
from cdc_assets.connectors.debezium_common import retention_ms
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import CapturedSource
from cdc_assets.resources.kafka import KafkaCluster, TopicState


def make_topic(cluster: KafkaCluster, source: CapturedSource, table: Table, *, deadline: float) -> TopicState:
    """The topic, there within `deadline` seconds: partitions and replicas are the source's, retention may be the table's."""
    declared, name = source.topics, names.topic(source, table)
    cluster.ensure_topic(
        name,
        partitions=declared.partitions,
        retention_ms=int(retention_ms(source, table)),
        replication_factor=declared.replication_factor,
    )
    return cluster.await_state(name, deadline=deadline)
