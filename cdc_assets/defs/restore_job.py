"""`cdc restore` of tables as a job of Dagster: the plan as metadata first, then what became of each table."""

from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from cdc_assets import names
from cdc_assets.defs.jobs import RESTORE_JOB
from cdc_assets.defs.keys import asset_key
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.defs.told_changes import materialization, silver_version
from cdc_assets.silver_now.current_table import find_source

if TYPE_CHECKING:
    from cdc_assets.restore.restore_request import RestoredTable, RestoreRequest


class RestoreConfig(dg.Config):
    """Which tables, how far, and where to."""

    source: str = Field(description="The source's name in the registry.")
    tables: list[str] = Field(default=[], description="By short name; all without.")
    into: str = Field(default="", description="Another lake; without one, tables are made where there are none.")
    to: str = Field(default="", description="Up to a moment (2026-11-25T18:00:00Z), a _cdc_position or a kept cut.")
    keys: list[str] = Field(default=[], description="Of one table beside the lake: rows of these keys alone.")
    from_key: str = Field(default="", description="Of one table beside the lake: rows from this key on, it included.")
    to_key: str = Field(default="", description="Of one table beside the lake: rows up to this key, it included.")
    skip_damaged: bool = Field(default=False, description="Restore damaged tables as well, without their damaged objects.")
    dry_run: bool = Field(default=True, description="Show what there is to restore, and change nothing.")


def build_restore_job() -> dg.JobDefinition:
    """`restore`, whose one step tells the plan; it restores only where `dry_run` is false."""

    @dg.op(name="restore_tables", out=dg.Out(dg.Nothing))
    def restore(context: dg.OpExecutionContext, platform: PlatformResource, config: RestoreConfig) -> None:
        from cdc_assets.restore.restore_source import restore_source
        from cdc_assets.restore.restore_wish import RestoreWish, make_request
        from cdc_assets.restore.restored_bronze import plan_bronze
        from spark.replay.wanted_keys import WantedKeys

        source = find_source(config.source)
        wanted = WantedKeys(tuple(config.keys), config.from_key or None, config.to_key or None)
        wish = RestoreWish(tuple(config.tables), config.into or None, config.to or None, config.skip_damaged, wanted)
        request = make_request(platform, source, wish)
        plan = {"cdc/plan": _table(request, plan_bronze(request))}
        if config.dry_run:
            context.add_output_metadata({**plan, "cdc/restored": False})
            return
        done = restore_source(platform, request, context.log.info)
        metadata: dict[str, Any] = {**plan, "cdc/tables": _table(request, done), "cdc/restored": True}
        if request.is_successor:
            for each in done:
                _tell(context, platform.lake, request, each)
        if damaged := [f"{each.table}: {'; '.join(each.damage[:3])}" for each in done if each.damage]:
            raise dg.Failure(f"damaged: {'; '.join(damaged)}; the rest is restored", metadata=metadata, allow_retries=False)
        context.add_output_metadata(metadata)

    @dg.graph(name=RESTORE_JOB)
    def steps() -> None:
        restore()

    return steps.to_job(description="Make tables again from the backup (cdc restore).")


def _tell(context: dg.OpExecutionContext, lake: str, request: "RestoreRequest", each: "RestoredTable") -> None:
    """At the silver asset of a table that was made again."""
    from cdc_assets.restore.restore_request import RESTORED

    if each.outcome == RESTORED:
        (table,) = (table for table in request.source.tables if names.table_name(table) == each.table)
        metadata = {f"cdc/{name}": value for name, value in _row(request, each).items()}
        version = silver_version(lake, request.source, table)
        key = asset_key("silver", request.source, table)
        context.log_event(materialization(key, metadata, version, description="by a restore"))


def _table(request: "RestoreRequest", rows: "list[RestoredTable]") -> dg.MetadataValue[Any]:
    records = [dg.TableRecord(_row(request, each)) for each in rows]
    return dg.MetadataValue.table(records) if records else dg.MetadataValue.json([])


def _row(request: "RestoreRequest", each: "RestoredTable") -> dict[str, str | int | float | bool]:
    told = request.row_of(each)
    return {**told, "positions": str(told["positions"]), "damage": "; ".join(told["damage"])}
