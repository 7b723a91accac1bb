"""The same onboarding as a run in Dagster: a job per route, an op per step, what each step found as its metadata.

A step that fails is resumed by launching the job again with the same tables, or by `cdc onboard SOURCE --resume`: both
go on from what is written in CDC_HOME.
"""

from collections.abc import Iterator
from typing import Any

import dagster as dg
from pydantic import Field

from cdc_assets.defs.declared_chains import take_in_step
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.onboarding import run
from cdc_assets.onboarding.route import ROUTES, job_name
from cdc_assets.onboarding.state import Route, only_one
from cdc_assets.onboarding.work import Step


class Tables(dg.Config):
    """Which tables of which source."""

    source: str = Field(description="The source's name in the registry.")
    tables: list[str] = Field(description="schema.table, as in the database.")
    again: bool = Field(default=False, description="Read captured tables once more.")


def build_onboarding_jobs() -> list[dg.JobDefinition]:
    """`onboard_incremental`, `onboard_blocking`, `onboard_temporary` and `offboard`."""
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
    def begin(context: dg.OpExecutionContext, config: Tables) -> Iterator[Any]:
        """Without an output, and so without further steps, when the tables are in already."""
        if run.begin(config.source, config.tables, route, again=config.again) is None:
            context.log.info("%s: %s are in already", config.source, ", ".join(config.tables))
            return
        yield dg.Output(config.source, metadata={"tables": ", ".join(config.tables)})

    return begin


def _op(name: str, step: Step) -> dg.OpDefinition:
    @dg.op(name=f"{name}_{_node(step)}", description=step.what, out=dg.Out(str))
    def one_step(context: dg.OpExecutionContext, platform: PlatformResource, source: str) -> Iterator[Any]:
        with only_one(source):
            facts = run.run_step(platform, source, step.name, lambda text: context.log.info("%s", text), take_in=take_in_step)
        shown = {f"cdc/{key}": value if isinstance(value, (int, float, str)) else str(value) for key, value in facts.items()}
        yield dg.Output(source, metadata=shown)

    return one_step


def _finish(name: str) -> dg.OpDefinition:
    @dg.op(name=f"{name}_finish")
    def finish(source: str) -> None:
        run.finish(source)

    return finish
