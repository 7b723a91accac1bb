"""The cut asset: all tables of a source at one place between two commits of its log."""

from typing import Any

import dagster as dg

from cdc_assets import names
from cdc_assets.defs.keys import asset_key
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.registry.models import BaseSource


def build_cut_asset(source: BaseSource) -> dg.AssetsDefinition:
    """One asset per source that declares `cuts`; materializing it makes one and keeps it."""
    spec = dg.AssetSpec(
        asset_key(names.CUT, source),
        deps=[asset_key("silver", source, table) for table in source.tables],
        description=f"A consistent cut of all tables of {source.name}: a Delta version of each, complete up to one transaction.",
        group_name=source.name,
        kinds={"delta"},
        owners=source.owners,
        tags={"layer": names.CUT, "source": source.name},
    )

    @dg.multi_asset(specs=[spec], name=names.op_name("cut", source), can_subset=False)
    def cut(context: dg.AssetExecutionContext, platform: PlatformResource) -> dg.MaterializeResult:
        from cdc_assets.cuts.make_cut import make_cut, plan_cut

        planned = [{name: -1 if value is None else value for name, value in row.items()} for row in plan_cut(platform, source)]
        made = make_cut(platform, source, context.log.info)
        shown = ("layer", "table", "version", "rows", "quarantined")
        rows = [dg.TableRecord({name: row[name] for name in shown}) for row in made.manifest.to_rows()]
        metadata: dict[str, Any] = {
            "cdc/cut": made.manifest.cut,
            "cdc/position": made.manifest.position,
            "cdc/rows": sum(entry.rows for entry in made.manifest.tables.values()),
            "cdc/cuts_forgotten": len(made.forgotten),
            **({"cdc/plan": dg.MetadataValue.table([*map(dg.TableRecord, planned)])} if planned else {}),
            "cdc/tables": dg.MetadataValue.table(rows),
            "dagster/uri": names.cuts_path(platform.lake, source),
        }
        return dg.MaterializeResult(metadata=metadata)

    return cut
