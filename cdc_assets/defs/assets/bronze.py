"""The bronze assets: exactly the committed records, appended to the source's change log, each once.

One Kafka read and one Delta commit for all tables of the step. Ranges are worked out here, from the log and the
topics as they are now, never from what a sensor saw. A table whose topic contradicts the log fails by itself, or is read
again (`topics: {on_gap: resnapshot}`).
"""

from contextlib import ExitStack
from typing import Any

import dagster as dg

from cdc_assets import names
from cdc_assets.bronze.append import append, look
from cdc_assets.bronze.reload import close_gap
from cdc_assets.bronze.table_news import AppendedTable, table_news
from cdc_assets.defs.assets.table_step import TableMetadata, table_step
from cdc_assets.errors import CdcAssetsError, TableFailuresError
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
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
            if source.topics.on_gap == "resnapshot":
                context.log.warning("%s", text)
            found.slices[topic] = close_gap(platform, source, found, topic, context.log.info)
        except CdcAssetsError as error:
            failures[_short(source, tables, topic)] = str(error) if str(error) == text else f"{text}; {error}"
    seconds, batches = append(platform, source, found, context.run.run_id, context.log.info)
    for done in table_news(platform, source, found, seconds, batches):
        yield done.table, metadata_of_append(done)
    if failures:
        raise TableFailuresError("bronze", failures)


def metadata_of_append(done: AppendedTable) -> dict[str, Any]:
    """What Dagster shows of a table after an append."""
    return {
        "dagster/row_count": done.records,
        "cdc/records_appended": done.added,
        "cdc/offset_ranges": dg.MetadataValue.json({str(p): list(r) for p, r in sorted(done.ranges.items())}),
        "cdc/offsets_read": done.offsets,
        "cdc/epoch": done.epoch,
        "cdc/delta_version": done.version,
        "cdc/batches": done.batches,
        "cdc/seconds": round(done.seconds, 3),
        "cdc/records_per_second": round(done.added / done.seconds) if done.seconds else 0,
        **({"cdc/read_again_after": done.gap} if done.gap else {}),
    }


def _short(source: BaseSource, tables: list[Table], topic: str) -> str:
    return next(names.table_name(table) for table in tables if names.lake_topic(source, table) == topic)
