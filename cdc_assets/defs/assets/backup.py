"""The backup assets: what is new in bronze, copied to the source's object store with a manifest per batch."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import dagster as dg

from cdc_assets import names
from cdc_assets.bronze.copies import take_out_copies
from cdc_assets.defs.assets.table_step import TableMetadata, table_step
from cdc_assets.errors import CdcAssetsError
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.table_lock import table_lock
from cdc_assets.tables.each_table import each_table

if TYPE_CHECKING:
    from cdc_assets.backup import BackupResult
    from cdc_assets.resources.object_store import ObjectStore


def build_backup_assets(source: BaseSource) -> dg.AssetsDefinition:
    """One step for all tables of the source; the source declares where to."""
    if source.backup is None:
        raise ValueError(f"source {source.name} declares no backup")
    config = source.backup.store

    @table_step("backup", source, version_of=_version)
    def backup(context: dg.AssetExecutionContext, platform: Platform, tables: list[Table]) -> TableMetadata:
        from cdc_assets.backup import BatchForm, backup_table
        from cdc_assets.restore.column_history import back_up_columns

        store = platform.store(config)
        take_out_copies(platform, source, context.log.warning)

        def copy(table: Table) -> "BackupResult":
            with table_lock("backup", source.name, names.table_name(table)):
                back_up_columns(store, platform.lake, source, table)
                return backup_table(
                    store,
                    source=source.name,
                    table=names.table_name(table),
                    bronze_path=names.bronze_path(platform.lake, source),
                    form=BatchForm.of(source.backup),
                )

        for table, result in each_table("backup", tables, copy, workers=2):
            if result.lost:
                context.log.warning(
                    "%s was the newest manifest, and is gone from the store: what bronze has is copied again", result.lost
                )
            yield table, _metadata(result)
        _keep_platform(context, platform, source, store)

    return backup


def _version(_: str, __: Table, metadata: Mapping[str, Any], ___: str | None) -> str:
    """A backup grows by records alone, in one epoch after the other."""
    return f"{metadata['cdc/epoch']}.{metadata['cdc/epoch_records']}"


def _metadata(result: "BackupResult") -> dict[str, int | float]:
    return {
        "dagster/row_count": result.position.records_total,
        "cdc/epoch": result.position.epoch,
        "cdc/epoch_records": result.position.records,
        "cdc/records_copied": result.records,
        "cdc/objects_written": result.objects,
        "cdc/bytes_written": result.bytes,
        "cdc/manifests_written": result.manifests,
        "cdc/seconds": round(result.seconds, 3),
    }


def _keep_platform(context: dg.AssetExecutionContext, platform: Platform, source: BaseSource, store: "ObjectStore") -> None:
    """Connectors, offsets and topics behind the data. What cannot be asked now is asked at the next run."""
    from cdc_assets.restore.cut_points import keep_cuts
    from cdc_assets.restore.kept_log import keep_platform

    try:
        keep_cuts(platform.lake, source, store)
        entry = keep_platform(platform, source, store)
    except CdcAssetsError as error:
        context.log.warning("connectors, offsets, topics or cuts are not in this backup: %s", error)
        return
    if entry is not None:
        context.log.info("connectors, offsets and topics: entry %d of the backup", entry.number)
