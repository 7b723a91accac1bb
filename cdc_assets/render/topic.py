"""KafkaTopic: the core cluster's topics as declared. The lake's copies are MirrorMaker 2's to make: it keeps their configs."""

from __future__ import annotations

from cdc_assets import names
from cdc_assets.connectors.debezium_common import retention_ms
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import CapturedSource
from cdc_assets.render.deployment import Deployment
from cdc_assets.render.manifest import Manifest, manifest

# A topic is data: taking its manifest away must never delete it, neither by a prune nor with the application.
KEPT = {"argocd.argoproj.io/sync-options": "Prune=false,Delete=false"}


def kafka_topics(source: CapturedSource, deployment: Deployment) -> list[Manifest]:
    """A topic per table."""
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
