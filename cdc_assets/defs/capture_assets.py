"""The assets before the lake: connector, topics and mirrors, each as declared, or it fails.

Of a source that git deploys they are looked at only: what is absent or does not run fails, what differs is told. A mirror's
asset waits until a marker in the source's log, and so everything committed before it, has come through Debezium and MirrorMaker
2. So a run of the whole chain ends complete without sensor or daemon. Where no place of the log can be named, the topics'
content is waited for, and the run's log says so. A topic that does not come fails its table, and the others go on.
"""

import time
from collections.abc import Sequence
from typing import Any

import dagster as dg

from cdc_assets.capture.connectors.apply_connector import bring_connector, make_topic
from cdc_assets.capture.connectors.apply_source import ensure_signal_table, judge_source, mend_partitions
from cdc_assets.capture.connectors.config_difference import difference_of
from cdc_assets.capture.connectors.connector_inventory import COMMIT
from cdc_assets.capture.connectors.debezium_settings import retention_ms, retention_of
from cdc_assets.capture.connectors.declared_connectors import not_listed
from cdc_assets.capture.connectors.mirrormaker2 import mirror_config
from cdc_assets.capture.log_position import TopicsStandError, mirror_offsets
from cdc_assets.capture.named_log_position import carry_or_tell
from cdc_assets.chain.new_epoch import apply_on_gap
from cdc_assets.clients.kafka import KafkaCluster, TopicState
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.clients.table_concurrency import each_table
from cdc_assets.defs.asset_specs import connector_spec
from cdc_assets.defs.asset_steps import TableMetadata, table_step
from cdc_assets.defs.check_results import metadata_of_applied, metadata_of_difference, metadata_of_status
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.registry import names
from cdc_assets.registry.errors import MirrorError, OwnerError
from cdc_assets.registry.field_types import format_duration
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity


def build_connector_asset(source: CapturedSource) -> dg.AssetsDefinition:
    """One asset per source: declared config in, a connector with every task running out; nothing else is touched."""

    @dg.multi_asset(specs=[connector_spec(source)], name=names.op_name("connector", source), can_subset=False)
    def connector(context: dg.AssetExecutionContext, platform: PlatformResource) -> dg.MaterializeResult:
        connect = platform.core_connect(source.cluster)
        epochs = apply_on_gap(Chain(platform, source), context.log.warning)
        judged = judge_source(Chain(platform, source), server_is_known=not epochs)
        for message in judged.messages:
            context.log.error("%s", message)
        capture = next(one for one in judged.connectors if one.role == "capture")
        lines = difference_of(connect, source, capture.config).lines()
        for line in lines:
            context.log.info("%s", line)
        if unsignalled := ensure_signal_table(source):
            context.log.warning("%s", unsignalled)
        late = not_listed(capture.source, connect.config(capture.name))
        parted = mend_partitions(capture.source)
        applied = bring_connector(connect, source, capture.config)
        context.log.info("%s: %s", applied.name, applied.summary)
        if applied.changed_keys and not applied.written:
            context.log.warning("%s is managed_by: gitops and not written from here: %s", applied.name, COMMIT)
        if parted:
            context.log.warning("%s", parted)
        if late and applied.written:
            # A running connector takes no snapshot of what is added to its list.
            only_changes = "only changes of %s come from now on; for the rows too: cdc onboard %s %s"
            context.log.warning(only_changes, late, source.name, late)
        result = metadata_of_applied(source, applied) | metadata_of_difference(lines)
        result |= metadata_of_status(connect.url, applied.status)
        result |= {
            **names.capture_names(source),
            "cdc/tables": len(capture.source.tables),
            "cdc/tables_to_onboard": late or "none",
            **({"cdc/tables_refused": "\n".join(judged.messages)} if judged.messages else {}),
            "cdc/database": platform.database(source.asked).place if source.asked else source.database.kind,
            **({"cdc/epochs_opened": dg.MetadataValue.json(epochs)} if epochs else {}),
        }
        return dg.MaterializeResult(metadata=result)

    return connector


_DECLARED_TOPIC_SECONDS = 30.0


def build_topic_assets(source: BaseSource) -> dg.AssetsDefinition:
    """One step for all tables of the source.

    The topic assets: each table's topic exists as declared, and is seen: identity, offsets, retention.
    """

    @table_step("topic", source)
    def topic(context: dg.AssetExecutionContext, platform: Platform, tables: list[Table]) -> TableMetadata:
        cluster = platform.core_kafka(source.cluster) if names.is_mirrored(source) else platform.lake_kafka()

        def ensure(table: Table) -> tuple[TopicState, str]:
            if own := source.captured:  # a topic of others is theirs to make and to keep
                if source.managed_by == "gitops":
                    return _topic_of_git(cluster, own, table)
                return make_topic(cluster, own, table, deadline=_DECLARED_TOPIC_SECONDS), ""
            return cluster.await_state(names.topic(source, table), deadline=_DECLARED_TOPIC_SECONDS), ""

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
    config, declared = (
        cluster.topic_config(name),
        {"cleanup.policy": "delete", "retention.ms": retention_ms(source, table)},
    )
    differences = [f"{key} is {config[key]}, declared is {value}" for key, value in declared.items() if config[key] != value]
    if len(state.ranges) != source.topics.partitions:
        differences.append(f"it has {quantity(len(state.ranges), 'partition')}, declared is {source.topics.partitions}")
    return state, "; ".join(differences)


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


_TOPIC_DEADLINE_SECONDS = 120.0
# An initial snapshot of large tables goes through here as well.
_CARRY_DEADLINE_SECONDS = 3600.0
_UNKNOWN = "not known: only what its topics held was waited for"


def build_mirror_assets(source: BaseSource) -> dg.AssetsDefinition:
    """One step for all tables of the source: they share one MirrorSourceConnector.

    The mirror assets: MirrorMaker 2 runs as declared, and what the source had committed is in the lake's cluster.
    """

    @table_step("mirror", source)
    def mirror(context: dg.AssetExecutionContext, platform: Platform, tables: list[Table]) -> TableMetadata:
        lake, connect = platform.lake_kafka(), platform.lake_connect()
        standing = _absent(Chain(platform, source), tables)
        judge_source(Chain(platform, source))
        applied = bring_connector(connect, source, mirror_config(source))
        context.log.info("%s: %s (managed_by: %s)", applied.name, applied.summary, source.managed_by)

        def appear(table: Table) -> TopicState:
            return lake.await_state(names.lake_topic(source, table), deadline=_TOPIC_DEADLINE_SECONDS)

        started = time.monotonic()
        try:
            reached = carry_or_tell(Chain(platform, source), deadline=_CARRY_DEADLINE_SECONDS, say=context.log.warning)
        except TopicsStandError as error:
            reached = error.position
            standing |= {names.table_name(t): str(error) for t in tables if names.topic(source, t) in error.topics}
        come = [table for table in tables if names.table_name(table) not in standing]
        seconds = time.monotonic() - started
        at = mirror_offsets(connect, applied.name)
        shared = {
            "cdc/connector": applied.name,
            **metadata_of_applied(source, applied),
            "cdc/source_lsn_reached": reached.lsn or _UNKNOWN,
            "cdc/seconds": round(seconds, 3),
            **metadata_of_status(connect.url, applied.status),
        }
        for table, state in each_table("mirror", come, appear, failures=standing):
            origin = names.topic(source, table)
            copied = {str(p): offset for (topic, p), offset in sorted(at.items()) if topic == origin}
            own = {"cdc/peek": f"cdc peek {state.name} --cluster {names.LAKE}"}
            yield table, topic_metadata(state) | own | shared | {"cdc/copied_up_to_core_offset": dg.MetadataValue.json(copied)}

    return mirror


def _absent(chain: Chain[BaseSource], tables: Sequence[Table]) -> dict[str, str]:
    """By table why its topic cannot come. MirrorMaker has no task until it finds one, and would be waited for in vain.

    Raises:
        MirrorError: no topic is there.
    """
    core, by_topic = (
        chain.platform.core_kafka(chain.source.cluster),
        {names.topic(chain.source, table): table for table in tables},
    )
    there = core.states(list(by_topic))
    absent = {
        names.table_name(table): f"topic {topic} is not on the core cluster at {core.bootstrap}: "
        f"materialize {'/'.join(names.asset_key('topic', chain.source, table))} first"
        for topic, table in sorted(by_topic.items())
        if topic not in there
    }
    if absent and not there:
        raise MirrorError("; ".join(absent.values()))
    return absent
