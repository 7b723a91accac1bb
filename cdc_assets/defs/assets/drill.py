"""The drill asset: the newest backup of a source restored beside its lake, and compared with what silver holds there."""

from typing import TYPE_CHECKING, Any

import dagster as dg

from cdc_assets import names
from cdc_assets.defs.keys import asset_key
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.registry.models import BaseSource

if TYPE_CHECKING:
    from cdc_assets.restore.drill_record import Drill


def build_drill_asset(source: BaseSource) -> dg.AssetsDefinition:
    """One asset per source that declares a drill; it only reads the lake's tables."""
    spec = dg.AssetSpec(
        asset_key(names.DRILL, source),
        deps=[asset_key("backup", source, table) for table in source.tables],
        description=f"Restores the backup of {source.name} beside its lake, and compares it with silver.",
        group_name=source.name,
        kinds={"delta"},
        owners=source.owners,
        tags={"layer": names.DRILL, "source": source.name},
    )

    @dg.multi_asset(specs=[spec], name=names.op_name("drill", source), can_subset=False)
    def drill(context: dg.AssetExecutionContext, platform: PlatformResource) -> dg.MaterializeResult:
        from cdc_assets.restore.drill_source import drill_source, plan_drill

        plans = [dg.TableRecord(_row(plan.to_json(source.name))) for plan in plan_drill(platform, source)]
        planned = {"cdc/plan": dg.MetadataValue.table(plans)} if plans else {}
        return dg.MaterializeResult(metadata=planned | _metadata(drill_source(platform, source, context.log.info)))

    return drill


def _metadata(found: "Drill") -> dict[str, Any]:
    rows = [dg.TableRecord(_row(table)) for table in found.to_json()["tables"]]
    return {
        "cdc/equal": found.is_equal,
        "cdc/minutes": round(found.seconds / 60, 2),
        "cdc/bytes": found.bytes,
        "cdc/rows": sum(table.rows for table in found.tables),
        "cdc/rows_differing": sum(table.differing for table in found.tables),
        **({"cdc/tables": dg.MetadataValue.table(rows)} if rows else {}),
    }


def _row(table: dict[str, Any]) -> dict[str, str | int | float | bool]:
    return {**table, "version": -1 if table["version"] is None else table["version"]}
