"""The assets of a source that keep its lake, each with its check: backups, drills, cuts of all its tables, maintenance.

What is new in bronze is copied to the source's object store, with a manifest per batch. A drill restores the newest backup
beside the lake and compares it with silver: its check is red when the rows differ, or nobody has looked for long.

A cut has all tables at one place between two commits of the log; its check is red when the newest is older than declared, or one
can be read no longer. Maintenance makes small files one, takes out gone rows, old commits and files, and with `backup.keep` old
epochs of the backup; its check is red when tables grow worse faster than it mends them.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import dagster as dg

from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.clients.table_concurrency import each_table, table_lock
from cdc_assets.defs.asset_specs import source_asset_spec
from cdc_assets.defs.asset_steps import CheckRun, TableMetadata, check_step, table_step
from cdc_assets.defs.check_results import check_result
from cdc_assets.defs.check_specs import CUTS_KEPT, DRILLED, MAINTAINED
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.registry import names
from cdc_assets.registry.errors import CdcAssetsError
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.source_settings import Cuts
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity

if TYPE_CHECKING:
    from cdc_assets.backup.backup_copy import BackupResult
    from cdc_assets.backup.old_epochs import ExpiredTable
    from cdc_assets.clients.object_store import ObjectStore
    from cdc_assets.recovery.drill import Drill
    from spark.upkeep.maintenance_spec import Maintained


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
    # A backup grows by records alone, in one epoch after the other.
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
    # Connectors, offsets and topics behind the data. What cannot be asked now is asked at the next run.
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
def drill_check(run: CheckRun[None]) -> Iterator[dg.AssetCheckResult]:
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


def build_cut_asset(source: BaseSource) -> dg.AssetsDefinition:
    """One asset per source that declares `cuts`; materializing it makes one and keeps it."""
    description = f"A consistent cut of all tables of {source.name}: a Delta version of each, complete up to one transaction."
    spec = source_asset_spec(names.CUT, source, "silver", description)

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


_SHOWN = 5


@check_step("cuts_kept", CUTS_KEPT)
def cuts_check(run: CheckRun[None]) -> Iterator[dg.AssetCheckResult]:
    """What it looks at are logs, in no service."""
    from cdc_assets.recovery.cut_manifest import read_cuts, what_is_wrong

    lake, source, now = run.chain.platform.lake, run.chain.source, datetime.now(timezone.utc)
    cuts = read_cuts(lake, source)
    wrong = list(what_is_wrong(lake, cuts, (source.cuts or Cuts()).every, now))
    metadata = {"cdc/cuts": len(cuts)}
    if cuts:
        metadata["cdc/newest_seconds"] = round((now - cuts[0].made_at).total_seconds())
    summary = f"{quantity(len(cuts), 'cut')} kept, the newest is {cuts[0].cut}" if cuts else ""
    yield check_result(CUTS_KEPT.key(source), not wrong, _first_of(wrong) or summary, metadata)


def _first_of(sentences: Sequence[str]) -> str:
    more = f", and {len(sentences) - _SHOWN} more" if len(sentences) > _SHOWN else ""
    return "; ".join(sentences[:_SHOWN]) + more


_PLANNED = ("rows", "rewrite_files", "checkpoint", "expire_commits", "remove_files", "remove_bytes")
_SUMS = ("rows_removed", "files_rewritten", "files_written", "commits_expired", "files_removed", "bytes_removed")


def build_maintenance_asset(source: BaseSource) -> dg.AssetsDefinition:
    """One asset per source; its tables are done one after another."""
    description = f"Keeps the tables of {source.name} in the lake small and fast."
    spec = source_asset_spec(names.MAINTENANCE, source, "silver", description)

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
        return dg.MaterializeResult(metadata={**_maintenance_metadata(done), **_plan_metadata(done), **_expiry_metadata(expired)})

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
    rows = [
        dg.TableRecord({"table": name, **{figure: getattr(result.plan, figure) for figure in _PLANNED}, "left": result.plan.left})
        for name, result in done.items()
        if result.plan is not None
    ]
    return {"cdc/plan": dg.MetadataValue.table(rows)} if rows else {}


def _expiry_metadata(expired: "list[ExpiredTable]") -> dict[str, Any]:
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
    given_up = "; ".join(f"{step}: {reason}" for step, reason in result.given_up.items())
    did = {figure: getattr(result, figure) for figure in _SUMS}
    figures = {figure: after.get(figure, 0) for figure in ("files", "small_files", "bytes", "rows", "dead_rows", "commits")}
    return {"table": name, **figures, **did, "kept_from": result.kept_from, "given_up": given_up, "seconds": result.seconds}


_FIGURES = ("files", "small_files", "bytes", "dead_rows", "commits", "log_bytes")


@check_step("maintained", MAINTAINED)
def maintenance_check(run: CheckRun[None]) -> Iterator[dg.AssetCheckResult]:
    """What it looks at are logs, in no service."""
    from cdc_assets.recovery.maintenance import plan_source, what_is_behind

    plans = {table.name: plan for table, plan in plan_source(run.chain)}
    behind = [f"{name}: {sentence}" for name, plan in plans.items() for sentence in what_is_behind(plan)]
    figures = [plan.figures for plan in plans.values() if plan.figures is not None]
    metadata = {f"cdc/{name}": sum(getattr(plan_figures, name) for plan_figures in figures) for name in _FIGURES}
    text = _first_of(behind) or f"{quantity(len(plans), 'table')} as they should be"
    yield check_result(MAINTAINED.key(run.chain.source), not behind, text, metadata)
