"""The mirror assets: MirrorMaker 2 runs as declared, and what the source had committed is in the lake's cluster.

Materializing waits until a marker written into the source's log, and with it everything committed before
(an initial snapshot included), has come through Debezium and MirrorMaker 2. So a run of the whole chain ends
complete without sensor or daemon. A topic that does not come fails its table, and the others go on. Where no place of the log
can be named (named_place), the topics' content is waited for, and the run's log says so.
"""

import time
from collections.abc import Sequence

import dagster as dg

from cdc_assets import names
from cdc_assets.apply.whole_source import judge_source
from cdc_assets.connectors.apply import bring_connector
from cdc_assets.connectors.mirrormaker2 import mirror_config
from cdc_assets.defs.assets.connector_metadata import of_applied, of_status
from cdc_assets.defs.assets.table_step import TableMetadata, table_step
from cdc_assets.defs.assets.topics import topic_metadata
from cdc_assets.errors import MirrorError
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.kafka import TopicState
from cdc_assets.resources.platform import Platform
from cdc_assets.tables.each_table import each_table
from cdc_assets.volumetry.log_position import TopicsStandError, mirror_offsets
from cdc_assets.volumetry.named_place import carry_or_tell

_TOPIC_DEADLINE_SECONDS = 120.0
# An initial snapshot of large tables goes through here as well.
_CARRY_DEADLINE_SECONDS = 3600.0
_UNKNOWN = "not known: only what its topics held was waited for"


def build_mirror_assets(source: BaseSource) -> dg.AssetsDefinition:
    """One step for all tables of the source: they share one MirrorSourceConnector."""

    @table_step("mirror", source)
    def mirror(context: dg.AssetExecutionContext, platform: Platform, tables: list[Table]) -> TableMetadata:
        lake, connect = platform.lake_kafka(), platform.lake_connect()
        standing = _absent(platform, source, tables)
        judge_source(platform, source)
        applied = bring_connector(connect, source, mirror_config(source))
        context.log.info("%s: %s (managed_by: %s)", applied.name, applied.summary, source.managed_by)

        def appear(table: Table) -> TopicState:
            return lake.await_state(names.lake_topic(source, table), deadline=_TOPIC_DEADLINE_SECONDS)

        started = time.monotonic()
        try:
            reached = carry_or_tell(platform, source, deadline=_CARRY_DEADLINE_SECONDS, say=context.log.warning)
        except TopicsStandError as error:
            reached = error.position
            standing |= {names.table_name(t): str(error) for t in tables if names.topic(source, t) in error.topics}
        come = [table for table in tables if names.table_name(table) not in standing]
        seconds = time.monotonic() - started
        at = mirror_offsets(connect, applied.name)
        shared = {
            "cdc/connector": applied.name,
            **of_applied(source, applied),
            "cdc/source_lsn_reached": reached.lsn or _UNKNOWN,
            "cdc/seconds": round(seconds, 3),
            **of_status(connect.url, applied.status),
        }
        for table, state in each_table("mirror", come, appear, failures=standing):
            origin = names.topic(source, table)
            copied = {str(p): offset for (topic, p), offset in sorted(at.items()) if topic == origin}
            own = {"cdc/peek": f"cdc peek {state.name} --cluster {names.LAKE}"}
            yield table, topic_metadata(state) | own | shared | {"cdc/copied_up_to_core_offset": dg.MetadataValue.json(copied)}

    return mirror


def _absent(platform: Platform, source: BaseSource, tables: Sequence[Table]) -> dict[str, str]:
    """By table why its topic cannot come. MirrorMaker has no task until it finds one, and would be waited for in vain.

    Raises:
        MirrorError: no topic is there.
    """
    core, wanted = platform.core_kafka(source.cluster), {names.topic(source, table): table for table in tables}
    there = core.states(list(wanted))
    absent = {
        names.table_name(table): f"topic {topic} is not on the core cluster at {core.bootstrap}: "
        f"materialize {'/'.join(names.asset_key('topic', source, table))} first"
        for topic, table in sorted(wanted.items())
        if topic not in there
    }
    if absent and not there:
        raise MirrorError("; ".join(absent.values()))
    return absent
