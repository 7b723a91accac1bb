"""The topic assets: each table's topic exists as declared, and is seen: identity, offsets, retention.

Of a source that git deploys (KafkaTopic) it is looked at only: absent fails, what differs is told.
"""

from typing import Any

import dagster as dg

from cdc_assets import names
from cdc_assets.connectors.debezium_common import retention_ms, retention_of
from cdc_assets.connectors.declared_topic import make_topic
from cdc_assets.connectors.owner import COMMIT
from cdc_assets.defs.assets.table_step import TableMetadata, table_step
from cdc_assets.errors import OwnerError
from cdc_assets.quantity import quantity
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.durations import format_duration
from cdc_assets.registry.models import BaseSource, CapturedSource
from cdc_assets.resources.kafka import KafkaCluster, TopicState
from cdc_assets.resources.platform import Platform
from cdc_assets.tables.each_table import each_table

_TOPIC_DEADLINE_SECONDS = 30.0


def build_topic_assets(source: BaseSource) -> dg.AssetsDefinition:
    """One step for all tables of the source."""

    @table_step("topic", source)
    def topic(context: dg.AssetExecutionContext, platform: Platform, tables: list[Table]) -> TableMetadata:
        cluster = platform.core_kafka(source.cluster) if names.is_mirrored(source) else platform.lake_kafka()

        def ensure(table: Table) -> tuple[TopicState, str]:
            if own := source.captured:  # a topic of others is theirs to make and to keep
                if source.managed_by == "gitops":
                    return _topic_of_git(cluster, own, table)
                return make_topic(cluster, own, table, deadline=_TOPIC_DEADLINE_SECONDS), ""
            return cluster.await_state(names.topic(source, table), deadline=_TOPIC_DEADLINE_SECONDS), ""

        for table, (state, differs) in each_table("topic", tables, ensure):
            if differs:
                context.log.warning("topic %s: %s; managed_by: gitops, nothing was written; %s", state.name, differs, COMMIT)
            yield table, {**topic_metadata(state), **_retention(source, table), **({"cdc/differs": differs} if differs else {})}

    return topic


def _topic_of_git(cluster: KafkaCluster, source: CapturedSource, table: Table) -> tuple[TopicState, str]:
    """The topic, and what of it is not as declared.

    Raises:
        OwnerError: it is not there; whoever made it from here would take it from the operator.
    """
    name = names.topic(source, table)
    state = cluster.states([name]).get(name)
    if state is None:
        raise OwnerError(f"topic {name} is not at {cluster.bootstrap}, and is managed_by: gitops, nothing was written; {COMMIT}")
    config, wanted = cluster.topic_config(name), {"cleanup.policy": "delete", "retention.ms": retention_ms(source, table)}
    found = [f"{key} is {config[key]}, declared is {value}" for key, value in wanted.items() if config[key] != value]
    if len(state.ranges) != source.topics.partitions:
        found.append(f"it has {quantity(len(state.ranges), 'partition')}, declared is {source.topics.partitions}")
    return state, "; ".join(found)


def _retention(source: BaseSource, table: Table) -> dict[str, str]:
    return {"cdc/retention": format_duration(retention_of(source, table))} if source.captured else {}


def topic_metadata(state: TopicState) -> dict[str, Any]:
    """Identity and offsets of a topic. Offsets only: the number of records is for the volumetry checks to count."""
    return {
        "cdc/topic_id": state.topic_id,
        "cdc/partitions": len(state.ranges),
        "cdc/peek": f"cdc peek {state.name}",
        "cdc/offsets": dg.MetadataValue.json({str(p): list(r) for p, r in sorted(state.ranges.items())}),
    }
