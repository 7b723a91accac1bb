"""The jobs that a person launches in Dagster: a replay of a table, a restore of tables, an onboarding.

They do what `cdc replay`, `cdc restore` and `cdc onboard` do, and tell it as metadata and as materializations of the silver
assets. A step of an onboarding that fails is resumed by launching the job again with the same tables, or by `cdc onboard SOURCE
--resume`: both go on from what is written in CDC_HOME.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from cdc_assets.capture.onboarding import onboarding_run
from cdc_assets.capture.onboarding.onboarding_run import ROUTES, job_name
from cdc_assets.capture.onboarding.onboarding_state import Route, Step, only_one
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.asset_specs import asset_key, materialization, silver_version
from cdc_assets.defs.overall_jobs import REPLAY_JOB, RESTORE_JOB
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.defs.source_chain import take_in_step
from cdc_assets.reading.silver_now import find_source
from cdc_assets.recovery.replay_table import Replayed, ReplayWish, replay_table, undo_replay
from cdc_assets.registry import names

if TYPE_CHECKING:
    from cdc_assets.recovery.restore_point import RestoredTable, RestoreRequest


class ReplayConfig(dg.Config):
    """Which table, and what of it."""

    source: str = Field(description="The source's name in the registry.")
    table: str = Field(description="As in the registry or in the lake.")
    keys: list[str] = Field(default=[], description='Only these keys: 42, or {"a": 1, "b": "x"}.')
    since: str = Field(default="", description="Rows with an event at or after this time: 2026-11-25T14:00:00Z.")
    until: str = Field(default="", description="Rows with an event before this time.")
    as_new: bool = Field(default=False, description="Without columns that are kept of earlier schemas.")
    dry_run: bool = Field(default=True, description="Show what differs, and change nothing.")
    undo: bool = Field(default=False, description="Take the newest replay back.")


def build_replay_job() -> dg.JobDefinition:
    """`replay`, whose one step says what differs; it swaps only where `dry_run` is false."""

    @dg.op(name="replay_table", out=dg.Out(dg.Nothing))
    def replay(context: dg.OpExecutionContext, platform: PlatformResource, config: ReplayConfig) -> None:
        source = find_source(config.source)
        table = source.table(config.table)
        if config.undo:
            versions = undo_replay(Chain(platform, source), table, context.log.info, dry_run=config.dry_run)
            metadata: dict[str, Any] = {"cdc/replay_undone": dg.MetadataValue.json(versions)}
        else:
            wish = ReplayWish(tuple(config.keys), config.since, config.until, config.as_new, config.dry_run)
            metadata = replay_metadata(replay_table(Chain(platform, source), table, wish, context.log.info))
        context.add_output_metadata(metadata)
        if not config.dry_run:
            version = silver_version(platform.lake, source, table)
            key = asset_key("silver", source, table)
            log = asset_key("bronze", source, table)
            context.log_event(materialization(key, metadata, version, description="by a replay", log=log))

    @dg.graph(name=REPLAY_JOB)
    def steps() -> None:
        replay()

    return steps.to_job(description="Make a table again from bronze by today's rules, and swap it in (cdc replay).")


def replay_metadata(done: Replayed) -> dict[str, Any]:
    """What differs, as figures, and the whole answer."""
    answer = done.to_json()
    rows_by_kind = {f"cdc/replay_{layer}_{kind}": n for layer, d in answer["difference"].items() for kind, n in d["rows"].items()}
    return {**rows_by_kind, "cdc/replay_swapped": answer["swapped"], "cdc/replay": dg.MetadataValue.json(answer)}


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
        from cdc_assets.recovery.restored_bronze import plan_bronze
        from cdc_assets.recovery.restored_source import RestoreWish, make_request, restore_source
        from spark.upkeep.replay_spec import WantedKeys

        source = find_source(config.source)
        wanted_keys = WantedKeys(tuple(config.keys), config.from_key or None, config.to_key or None)
        wish = RestoreWish(tuple(config.tables), config.into or None, config.to or None, config.skip_damaged, wanted_keys)
        request = make_request(Chain(platform, source), wish)
        plan = {"cdc/plan": _restoration_tables(request, plan_bronze(request))}
        if config.dry_run:
            context.add_output_metadata({**plan, "cdc/restored": False})
            return
        done = restore_source(platform, request, context.log.info)
        metadata: dict[str, Any] = {**plan, "cdc/tables": _restoration_tables(request, done), "cdc/restored": True}
        if request.is_successor:
            for restored in done:
                _tell(context, platform.lake, request, restored)
        if damaged := [f"{restored.table}: {'; '.join(restored.damage[:3])}" for restored in done if restored.damage]:
            raise dg.Failure(f"damaged: {'; '.join(damaged)}; the rest is restored", metadata=metadata, allow_retries=False)
        context.add_output_metadata(metadata)

    @dg.graph(name=RESTORE_JOB)
    def steps() -> None:
        restore()

    return steps.to_job(description="Make tables again from the backup (cdc restore).")


def _tell(context: dg.OpExecutionContext, lake: str, request: "RestoreRequest", each: "RestoredTable") -> None:
    from cdc_assets.recovery.restore_point import RESTORED

    if each.outcome == RESTORED:
        (table,) = (table for table in request.source.tables if names.table_name(table) == each.table)
        metadata = {f"cdc/{name}": value for name, value in _restoration_row(request, each).items()}
        version = silver_version(lake, request.source, table)
        key = asset_key("silver", request.source, table)
        log = asset_key("bronze", request.source, table)
        context.log_event(materialization(key, metadata, version, description="by a restore", log=log))


def _restoration_tables(request: "RestoreRequest", rows: "list[RestoredTable]") -> dg.MetadataValue[Any]:
    records = [dg.TableRecord(_restoration_row(request, row)) for row in rows]
    return dg.MetadataValue.table(records) if records else dg.MetadataValue.json([])


def _restoration_row(request: "RestoreRequest", each: "RestoredTable") -> dict[str, str | int | float | bool]:
    row = request.row_of(each)
    return {**row, "positions": str(row["positions"]), "damage": "; ".join(row["damage"])}


class OnboardedTables(dg.Config):
    """Which tables of which source."""

    source: str = Field(description="The source's name in the registry.")
    tables: list[str] = Field(description="schema.table, as in the database.")
    again: bool = Field(default=False, description="Read captured tables once more.")


def build_onboarding_jobs() -> list[dg.JobDefinition]:
    """`onboard_incremental`, `onboard_blocking`, `onboard_temporary` and `offboard`.

    The same onboarding as a run in Dagster: a job per route, an op per step, what each step found as its metadata.
    """
    return [_job(route) for route in ROUTES]


def _job(route: Route) -> dg.JobDefinition:
    name = job_name(route)
    first, last = _begin(name, route), _finish(name)
    steps = [_op(name, step) for step in ROUTES[route]]

    @dg.graph(name=name)
    def steps_in_order() -> None:
        # A box of the graph shows the beginning of a name only: there it is the step's alone.
        source = first.alias("begin")()
        for step, op in zip(ROUTES[route], steps, strict=True):
            source = op.alias(_node(step))(source)
        last.alias("finish")(source)

    return steps_in_order.to_job(description="Steps: " + "; ".join(step.what for step in ROUTES[route]) + ".")


def _node(step: Step) -> str:
    return step.name.replace("-", "_")


def _begin(name: str, route: Route) -> dg.OpDefinition:
    @dg.op(name=f"{name}_begin", out=dg.Out(str, is_required=False))
    def begin(context: dg.OpExecutionContext, config: OnboardedTables) -> Iterator[Any]:
        """Without an output, and so without further steps, when the tables are in already."""
        if onboarding_run.begin(config.source, config.tables, route, again=config.again) is None:
            context.log.info("%s: %s are in already", config.source, ", ".join(config.tables))
            return
        yield dg.Output(config.source, metadata={"tables": ", ".join(config.tables)})

    return begin


def _op(name: str, step: Step) -> dg.OpDefinition:
    @dg.op(name=f"{name}_{_node(step)}", description=step.what, out=dg.Out(str))
    def one_step(context: dg.OpExecutionContext, platform: PlatformResource, source: str) -> Iterator[Any]:
        with only_one(source):
            facts = onboarding_run.run_step(
                platform, source, step.name, lambda text: context.log.info("%s", text), take_in=take_in_step
            )
        shown = {f"cdc/{key}": value if isinstance(value, (int, float, str)) else str(value) for key, value in facts.items()}
        yield dg.Output(source, metadata=shown)

    return one_step


def _finish(name: str) -> dg.OpDefinition:
    @dg.op(name=f"{name}_finish")
    def finish(source: str) -> None:
        onboarding_run.finish(source)

    return finish
