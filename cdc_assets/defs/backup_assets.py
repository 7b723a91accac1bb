"""The backup assets, and the drill of a source with its check.

What is new in bronze is copied to the source's object store, with a manifest per batch. A drill restores the newest backup
beside the lake and compares it with silver: its check is red when the rows differ, or nobody has looked for long.
"""

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import dagster as dg

from cdc_assets.chain.bronze_append import take_out_copies
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.clients.table_concurrency import each_table, table_lock
from cdc_assets.defs.asset_specs import source_asset_spec
from cdc_assets.defs.asset_steps import CheckRun, TableMetadata, check_step, table_step
from cdc_assets.defs.check_results import check_result
from cdc_assets.defs.check_specs import DRILLED
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.registry import names
from cdc_assets.registry.errors import CdcAssetsError
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity

if TYPE_CHECKING:
    from cdc_assets.backup.backup_copy import BackupResult
    from cdc_assets.clients.object_store import ObjectStore
    from cdc_assets.recovery.drill import Drill


def build_backup_assets(source: BaseSource) -> dg.AssetsDefinition:
    """One step for all tables of the source; the source declares where to."""
    if source.backup is None:
        raise ValueError(f"source {source.name} declares no backup")
    config = source.backup.store

    @table_step("backup", source, version_of=_version)
    def backup(context: dg.AssetExecutionContext, platform: Platform, tables: list[Table]) -> TableMetadata:
        from cdc_assets.backup.backup_copy import BatchForm, backup_table
        from cdc_assets.recovery.column_history import back_up_columns

        store = platform.store(config)
        take_out_copies(Chain(platform, source), context.log.warning)

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
            yield table, _backup_metadata(result)
        _keep_platform(context, platform, source, store)

    return backup


def _version(_: str, __: Table, metadata: Mapping[str, Any], ___: str | None) -> str:
    """A backup grows by records alone, in one epoch after the other."""
    return f"{metadata['cdc/epoch']}.{metadata['cdc/epoch_records']}"


def _backup_metadata(result: "BackupResult") -> dict[str, int | float]:
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
    from cdc_assets.recovery.kept_log import keep_platform
    from cdc_assets.recovery.restore_point import keep_cuts

    try:
        keep_cuts(platform.lake, source, store)
        entry = keep_platform(Chain(platform, source), store)
    except CdcAssetsError as error:
        context.log.warning("connectors, offsets, topics or cuts are not in this backup: %s", error)
        return
    if entry is not None:
        context.log.info("connectors, offsets and topics: entry %d of the backup", entry.number)


def build_drill_asset(source: BaseSource) -> dg.AssetsDefinition:
    """One asset per source that declares a drill; it only reads the lake's tables."""
    description = f"Restores the backup of {source.name} beside its lake, and compares it with silver."
    spec = source_asset_spec(names.DRILL, source, "backup", description)

    @dg.multi_asset(specs=[spec], name=names.op_name("drill", source), can_subset=False)
    def drill(context: dg.AssetExecutionContext, platform: PlatformResource) -> dg.MaterializeResult:
        from cdc_assets.recovery.drill import drill_source, plan_drill

        plans = [dg.TableRecord(_drill_row(plan.to_json(source.name))) for plan in plan_drill(Chain(platform, source))]
        planned = {"cdc/plan": dg.MetadataValue.table(plans)} if plans else {}
        return dg.MaterializeResult(metadata=planned | _drill_metadata(drill_source(Chain(platform, source), context.log.info)))

    return drill


def _drill_metadata(found: "Drill") -> dict[str, Any]:
    rows = [dg.TableRecord(_drill_row(table)) for table in found.to_json()["tables"]]
    return {
        "cdc/equal": found.is_equal,
        "cdc/minutes": round(found.seconds / 60, 2),
        "cdc/bytes": found.bytes,
        "cdc/rows": sum(table.rows for table in found.tables),
        "cdc/rows_differing": sum(table.differing for table in found.tables),
        **({"cdc/tables": dg.MetadataValue.table(rows)} if rows else {}),
    }


def _drill_row(table: dict[str, Any]) -> dict[str, str | int | float | bool]:
    return {**table, "version": -1 if table["version"] is None else table["version"]}


@check_step("drilled", DRILLED)
def drilled_check(run: CheckRun[None]) -> Iterator[dg.AssetCheckResult]:
    """What it looks at is the note of the last drill; a source that never had one warns."""
    from cdc_assets.recovery.drill import last_drill

    source, key = run.chain.source, DRILLED.key(run.chain.source)
    assert source.drill is not None
    last = last_drill(run.chain.platform.lake, source)
    if last is None:
        sentence = f"there was no drill yet: cdc drill {source.name}"
        yield check_result(key, False, sentence, {}, severity=dg.AssetCheckSeverity.WARN)
        return
    age = time.time() - last.at
    wrong = [f"{table.table}: {table.sentence}" for table in last.tables if not table.is_equal]
    if age > source.drill.oldest.total_seconds():
        wrong.append(f"the last drill was at {last.moment}: cdc drill {source.name}")
    sentence = f"{quantity(sum(table.rows for table in last.tables), 'row')} equal at {last.moment}"
    metadata = {"cdc/age_hours": round(age / 3600, 2), "cdc/minutes": round(last.seconds / 60, 2), "cdc/bytes": last.bytes}
    yield check_result(key, not wrong, "; ".join(wrong) or sentence, metadata)
