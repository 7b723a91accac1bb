"""The assets of a source that keep its lake, each with its check: cuts of all its tables, and the maintenance of their files.

A cut has all tables at one place between two commits of the log; its check is red when the newest is older than declared, or one
can be read no longer. Maintenance makes small files one, takes out gone rows, old commits and files, and with `backup.keep` old
epochs of the backup; its check is red when tables grow worse faster than it mends them.
"""

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import dagster as dg

from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.asset_specs import asset_key, key_of_check
from cdc_assets.defs.check_results import check_result
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.registry import names
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.source_settings import Cuts
from spark.errors import quantity

if TYPE_CHECKING:
    from cdc_assets.backup.old_epochs import ExpiredTable
    from spark.upkeep.maintenance_spec import Maintained


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
        from cdc_assets.recovery.consistent_cut import make_cut, plan_cut

        planned = [
            {name: -1 if value is None else value for name, value in row.items()} for row in plan_cut(Chain(platform, source))
        ]
        made = make_cut(Chain(platform, source), context.log.info)
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


CUTS_KEPT = "cuts_kept"
_SHOWN = 5


def cuts_key(source: BaseSource) -> dg.AssetCheckKey:
    """The key of the source's check."""
    return key_of_check(CUTS_KEPT, names.CUT, source)


def build_cuts_check(source: BaseSource) -> dg.AssetChecksDefinition:
    """One check per source that declares `cuts`; what it looks at are logs, in no service."""
    key, declared = cuts_key(source), source.cuts or Cuts()
    description = "The newest cut is as young as declared, and the kept ones can be read."
    spec = dg.AssetCheckSpec(CUTS_KEPT, asset=key.asset_key, description=description, blocking=True)

    @dg.multi_asset_check(name=names.op_name("cuts_kept", source), specs=[spec])
    def check(platform: PlatformResource) -> dg.AssetCheckResult:
        from cdc_assets.recovery.cut_manifest import read_cuts, what_is_wrong

        cuts, now = read_cuts(platform.lake, source), datetime.now(timezone.utc)
        wrong = list(what_is_wrong(platform.lake, cuts, declared.every, now))
        metadata = {"cdc/cuts": len(cuts)}
        if cuts:
            metadata["cdc/newest_seconds"] = round((now - cuts[0].made_at).total_seconds())
        more = f", and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        summary = f"{quantity(len(cuts), 'cut')} kept, the newest is {cuts[0].cut}" if cuts else ""
        return check_result(key, not wrong, "; ".join(wrong[:_SHOWN]) + more if wrong else summary, metadata)

    return check


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
        from cdc_assets.backup.old_epochs import expire_backups
        from cdc_assets.recovery.maintenance import maintain_with_backup

        expired = list(expire_backups(Chain(platform, source)))
        for table_expired in expired:
            if table_expired.epochs.reason:
                context.log.info(
                    "backup of %s: no more goes this time: %s", table_expired.epochs.table, table_expired.epochs.reason
                )
        done = {table.name: result for table, result in maintain_with_backup(Chain(platform, source))}
        for name, result in done.items():
            for step, reason in result.given_up.items():
                context.log.info("%s: %s not done this time: %s", name, step, reason)
        return dg.MaterializeResult(metadata={**_maintenance_metadata(done), **_plan_metadata(done), **_backup_metadata(expired)})

    return maintenance


def _maintenance_metadata(done: dict[str, "Maintained"]) -> dict[str, Any]:
    rows = [dg.TableRecord(_row(name, result)) for name, result in done.items()]
    sums = {f"cdc/{name}": sum(getattr(result, name) for result in done.values()) for name in _SUMS}
    of_quarantine = [result for name, result in done.items() if name.startswith("quarantine/")]
    sums["cdc/quarantine_rows_removed"] = sum(result.rows_removed for result in of_quarantine)
    after = [result.after for result in done.values() if result.after is not None]
    sums |= {f"cdc/{name}": sum(getattr(figures, name) for figures in after) for name in ("files", "small_files", "bytes")}
    sums |= {f"cdc/{name}": sum(getattr(figures, name) for figures in after) for name in ("dead_rows", "commits", "log_bytes")}
    return {**sums, **({"cdc/tables": dg.MetadataValue.table(rows)} if rows else {})}


def _plan_metadata(done: dict[str, "Maintained"]) -> dict[str, Any]:
    """What each table needed before anything was done to it."""
    rows = [
        dg.TableRecord({"table": name, **{figure: getattr(result.plan, figure) for figure in _PLANNED}, "left": result.plan.left})
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
                "table": table_expired.epochs.table,
                "begins": table_expired.epochs.base.epoch if table_expired.epochs.base else 0,
                "earliest": table_expired.epochs.base.earliest if table_expired.epochs.base else "",
                "objects_removed": len(table_expired.epochs.keys),
                "bytes_removed": table_expired.epochs.bytes,
                "held": table_expired.epochs.reason,
            }
        )
        for table_expired in expired
    ]
    return {
        "cdc/backup_objects_removed": sum(len(table_expired.epochs.keys) for table_expired in expired),
        "cdc/backup_bytes_removed": sum(table_expired.epochs.bytes for table_expired in expired),
        "cdc/backup": dg.MetadataValue.table(rows),
    }


def _row(name: str, result: "Maintained") -> dict[str, str | int | float | bool]:
    after = result.after.to_dict() if result.after is not None else {}
    kept = "; ".join(f"{reason_kept.version}: {reason_kept.reason}" for reason_kept in (result.kept, result.named) if reason_kept)
    given_up = "; ".join(f"{step}: {reason}" for step, reason in result.given_up.items())
    did = {figure: getattr(result, figure) for figure in _SUMS}
    figures = {figure: after.get(figure, 0) for figure in ("files", "small_files", "bytes", "rows", "dead_rows", "commits")}
    return {"table": name, **figures, **did, "kept_from": kept, "given_up": given_up, "seconds": result.seconds}


MAINTAINED = "maintained"
_FIGURES = ("files", "small_files", "bytes", "dead_rows", "commits", "log_bytes")


def build_maintained_check(source: BaseSource) -> dg.AssetChecksDefinition:
    """One check per source; what it looks at are logs, in no service."""
    key = key_of_check(MAINTAINED, names.MAINTENANCE, source)
    description = "Files, gone rows and logs of the tables stay small."
    spec = dg.AssetCheckSpec(MAINTAINED, asset=key.asset_key, description=description, blocking=True)

    @dg.multi_asset_check(name=names.op_name("maintained", source), specs=[spec])
    def check(platform: PlatformResource) -> dg.AssetCheckResult:
        from cdc_assets.recovery.maintenance import plan_source, what_is_behind

        plans = {table.name: plan for table, plan in plan_source(Chain(platform, source))}
        behind = [f"{name}: {sentence}" for name, plan in plans.items() for sentence in what_is_behind(plan)]
        figures = [plan.figures for plan in plans.values() if plan.figures is not None]
        metadata = {f"cdc/{name}": sum(getattr(plan_figures, name) for plan_figures in figures) for name in _FIGURES}
        summary = f"{quantity(len(plans), 'table')} as they should be"
        more = f", and {len(behind) - _SHOWN} more" if len(behind) > _SHOWN else ""
        text = "; ".join(behind[:_SHOWN]) + more if behind else summary
        return check_result(key, not behind, text, metadata)

    return check
