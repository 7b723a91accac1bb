"""The mirror assets: MirrorMaker 2 runs as declared, and what the source had committed is in the lake's cluster.

Materializing waits until a marker written into the source's log, and with it everything committed before
(an initial snapshot included), has come through Debezium and MirrorMaker 2. So a run of the whole chain ends
complete without sensor or daemon.
"""

import time
from collections.abc import Iterator

import dagster as dg

from cdc_assets import names
from cdc_assets.assets.connector_metadata import of_status
from cdc_assets.assets.each_table import each_table, selected_tables
from cdc_assets.assets.specs import table_spec
from cdc_assets.assets.topics import topic_metadata
from cdc_assets.connectors.apply import apply_connector
from cdc_assets.connectors.mirror import mirror_config
from cdc_assets.mirroring.watch import refuse_one_cluster
from cdc_assets.registry.models import BaseSource, Table
from cdc_assets.resources.kafka import TopicState
from cdc_assets.resources.platform import Platform
from cdc_assets.volumetry.log_position import carry_to_lake, mirrored_up_to

_TOPIC_DEADLINE_SECONDS = 120.0
# An initial snapshot of large tables goes through here as well.
_CARRY_DEADLINE_SECONDS = 3600.0


def build_mirror_assets(source: BaseSource) -> dg.AssetsDefinition:
    """One step for all tables of the source: they share one MirrorSourceConnector."""

    @dg.multi_asset(
        specs=[table_spec("mirror", source, table) for table in source.tables], name=f"mirror_{source.name}", can_subset=True
    )
    def mirror(context: dg.AssetExecutionContext, platform: Platform) -> Iterator[dg.MaterializeResult]:
        core, lake = platform.core_kafka(), platform.lake_kafka()
        refuse_one_cluster(core, lake)
        connect = platform.lake_connect()
        applied = apply_connector(connect, mirror_config(source))
        context.log.info("%s: %s", applied.name, applied.summary)
        tables = selected_tables(context, "mirror", source)

        def appear(table: Table) -> TopicState:
            return lake.await_state(names.mirrored_topic(source, table), deadline=_TOPIC_DEADLINE_SECONDS)

        started = time.monotonic()
        reached = carry_to_lake(platform, source, deadline=_CARRY_DEADLINE_SECONDS)
        seconds = time.monotonic() - started
        at = mirrored_up_to(connect, applied.name)
        for table, state in each_table("mirror", tables, appear):
            origin = names.topic(source, table)
            copied = {str(p): offset for (topic, p), offset in sorted(at.items()) if topic == origin}
            yield dg.MaterializeResult(
                asset_key=dg.AssetKey(names.asset_key("mirror", source, table)),
                metadata={
                    **topic_metadata(state),
                    "cdc/connector": applied.name,
                    "cdc/change": applied.summary,
                    "cdc/source_lsn_reached": reached.lsn,
                    "cdc/seconds": round(seconds, 3),
                    **of_status(connect.url, applied.status),
                    "cdc/copied_up_to_core_offset": dg.MetadataValue.json(copied),
                },
            )

    return mirror
