"""The bronze assets: exactly the committed records, appended to the source's change log, each once.

One Kafka read and one Delta commit for all tables of the step. Ranges are worked out here, from the log and the
topics as they are now, never from what a sensor saw. A table whose topic contradicts the log fails by itself, or is read
again (`topics: {on_gap: resnapshot}`).
"""

from contextlib import ExitStack

import dagster as dg

from cdc_assets import names
from cdc_assets.bronze.append import AppendPlan, TopicSlice, append, look, reload_table
from cdc_assets.bronze.ranges import width
from cdc_assets.defs.assets.table_step import TableMetadata, table_step
from cdc_assets.errors import CdcAssetsError, TableFailuresError, TopicGapError
from cdc_assets.registry.models import BaseSource, Table
from cdc_assets.resources.delta_log import bronze_committed
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.table_lock import table_lock


def build_bronze_assets(source: BaseSource) -> dg.AssetsDefinition:
    """One step for all tables of the source."""

    @table_step("bronze", source)
    def bronze(context: dg.AssetExecutionContext, platform: Platform, tables: list[Table]) -> TableMetadata:
        tables = sorted(tables, key=lambda table: table.name)
        with ExitStack() as locks:
            for table in tables:  # in one order, so that two runs cannot wait for each other
                locks.enter_context(table_lock("bronze", source.name, names.table_name(table)))
            yield from append_news(context, platform, source, tables)

    return bronze


def append_news(context: dg.AssetExecutionContext, platform: Platform, source: BaseSource, tables: list[Table]) -> TableMetadata:
    """Append what the tables' topics hold beyond bronze, up to the last stable offsets of this moment."""
    found = look(platform, source, tables)
    failures = {_short(source, tables, topic): text for topic, text in found.missing.items()}
    for topic, text in found.gaps.items():
        try:
            found.slices[topic] = _close_gap(context, platform, source, tables, found, topic)
        except CdcAssetsError as error:
            failures[_short(source, tables, topic)] = str(error) if str(error) == text else f"{text}; {error}"
    seconds, batches = append(platform, source, found, context.run.run_id, context.log.info)
    after = bronze_committed(names.bronze_path(platform.lake, source))
    for topic, each in found.slices.items():
        now, was = after.topics.get(topic) if after else None, found.before.get(topic)
        added = (now.records if now else 0) - (was.records if was and was.epoch == each.epoch else 0)
        yield (
            each.table,
            {
                "dagster/row_count": now.records if now else 0,
                "cdc/records_appended": added,
                "cdc/offset_ranges": dg.MetadataValue.json({str(p): list(r) for p, r in sorted(each.ranges.items())}),
                "cdc/offsets_read": width(each.ranges),
                "cdc/epoch": each.epoch,
                "cdc/delta_version": after.version if after else -1,
                "cdc/batches": batches[topic],
                "cdc/seconds": round(seconds, 3),
                "cdc/records_per_second": round(added / seconds) if seconds else 0,
                **({"cdc/read_again_after": found.gaps[topic]} if topic in found.gaps else {}),
            },
        )
    if failures:
        raise TableFailuresError("bronze", failures)


def _close_gap(
    context: dg.AssetExecutionContext, platform: Platform, source: BaseSource, tables: list[Table], found: AppendPlan, topic: str
) -> TopicSlice:
    """The gap, as the source declares to treat it."""
    if source.topics.on_gap == "fail" or source.asked is None:
        raise TopicGapError(found.gaps[topic])
    context.log.warning("%s", found.gaps[topic])
    table = next(table for table in tables if names.lake_topic(source, table) == topic)
    return reload_table(platform, source.asked, table, found.before.get(topic), context.log.info)


def _short(source: BaseSource, tables: list[Table], topic: str) -> str:
    return next(names.table_name(table) for table in tables if names.lake_topic(source, table) == topic)
