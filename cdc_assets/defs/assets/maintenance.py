"""The maintenance asset: small files made one, gone rows taken out, old commits and files removed, for all tables of a source.

With `backup.keep` old epochs go from its backup as well.
"""

from typing import TYPE_CHECKING, Any

import dagster as dg

from cdc_assets import names
from cdc_assets.defs.keys import asset_key
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.registry.models import BaseSource

if TYPE_CHECKING:
    from cdc_assets.backup.expire_source import ExpiredTable
    from spark.maintenance.maintenance_spec import Maintained

_PLANNED = ("rows", "rewrite_files", "checkpoint", "expire_commits", "remove_files", "remove_bytes")
_SUMS = ("rows_removed", "files_rewritten", "files_written", "commits_expired", "files_removed", "bytes_removed")


def build_maintenance_asset(source: BaseSource) -> dg.AssetsDefinition:
    """One asset per source; its tables are done one after another."""
    spec = dg.AssetSpec(
        asset_key(names.MAINTENANCE, source),
        deps=[asset_key("silver", source, table) for table in source.tables],
        description=f"Keeps the tables of {source.name} in the lake small and fast.",
        group_name=source.name,
        kinds={"delta"},
        owners=source.owners,
        tags={"layer": names.MAINTENANCE, "source": source.name},
    )

    @dg.multi_asset(specs=[spec], name=names.op_name("maintenance", source), can_subset=False)
    def maintenance(context: dg.AssetExecutionContext, platform: PlatformResource) -> dg.MaterializeResult:
        from cdc_assets.backup.expire_source import expire_backups
        from cdc_assets.restore.maintained_source import maintain_with_backup

        expired = list(expire_backups(platform, source))
        for each in expired:
            if each.found.held:
                context.log.info("backup of %s: no more goes this time: %s", each.found.table, each.found.held)
        done = {table.name: result for table, result in maintain_with_backup(platform, source)}
        for name, result in done.items():
            for step, reason in result.given_up.items():
                context.log.info("%s: %s not done this time: %s", name, step, reason)
        return dg.MaterializeResult(metadata={**_metadata(done), **_plan_metadata(done), **_backup_metadata(expired)})

    return maintenance


def _metadata(done: dict[str, "Maintained"]) -> dict[str, Any]:
    rows = [dg.TableRecord(_row(name, result)) for name, result in done.items()]
    sums = {f"cdc/{name}": sum(getattr(result, name) for result in done.values()) for name in _SUMS}
    sums["cdc/quarantine_rows_removed"] = sum(result.rows_removed for name, result in done.items() if _is_quarantine(name))
    after = [result.after for result in done.values() if result.after is not None]
    sums |= {f"cdc/{name}": sum(getattr(each, name) for each in after) for name in ("files", "small_files", "bytes")}
    sums |= {f"cdc/{name}": sum(getattr(each, name) for each in after) for name in ("dead_rows", "commits", "log_bytes")}
    return {**sums, **({"cdc/tables": dg.MetadataValue.table(rows)} if rows else {})}


def _is_quarantine(name: str) -> bool:
    return name.startswith("quarantine/")


def _plan_metadata(done: dict[str, "Maintained"]) -> dict[str, Any]:
    """What each table needed before anything was done to it."""
    rows = [
        dg.TableRecord({"table": name, **{each: getattr(result.plan, each) for each in _PLANNED}, "left": result.plan.left})
        for name, result in done.items()
        if result.plan is not None
    ]
    return {"cdc/plan": dg.MetadataValue.table(rows)} if rows else {}


def _backup_metadata(expired: "list[ExpiredTable]") -> dict[str, Any]:
    """Of tables whose backup does not keep everything; none where it keeps all."""
    if not expired:
        return {}
    rows = [
        dg.TableRecord(
            {
                "table": each.found.table,
                "begins": each.found.base.epoch if each.found.base else 0,
                "earliest": each.found.base.earliest if each.found.base else "",
                "objects_removed": len(each.found.keys),
                "bytes_removed": each.found.bytes,
                "held": each.found.held,
            }
        )
        for each in expired
    ]
    return {
        "cdc/backup_objects_removed": sum(len(each.found.keys) for each in expired),
        "cdc/backup_bytes_removed": sum(each.found.bytes for each in expired),
        "cdc/backup": dg.MetadataValue.table(rows),
    }


def _row(name: str, result: "Maintained") -> dict[str, str | int | float | bool]:
    after = result.after.to_dict() if result.after is not None else {}
    kept = "; ".join(f"{each.version}: {each.reason}" for each in (result.kept, result.named) if each)
    given_up = "; ".join(f"{step}: {reason}" for step, reason in result.given_up.items())
    did = {each: getattr(result, each) for each in _SUMS}
    figures = {each: after.get(each, 0) for each in ("files", "small_files", "bytes", "rows", "dead_rows", "commits")}
    return {"table": name, **figures, **did, "kept_from": kept, "given_up": given_up, "seconds": result.seconds}
