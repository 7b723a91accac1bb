"""One subsettable step for all tables of a source: of a layer's assets, or of one check.

A table that fails does not stop the others of its step. A check that fails by an error is told as that error.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic

import dagster as dg

from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.asset_specs import LOG_VERSION, VersionOf, asset_key, observation, table_spec, version_in
from cdc_assets.defs.check_specs import CheckSpec, Subject
from cdc_assets.defs.instance_runs import last_materializations
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.registry import names
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource
from cdc_assets.registry.table_declaration import Table

TableMetadata = Iterator[tuple[Table, Mapping[str, Any]]]
"""Each table that was materialized, and what Dagster shows of it."""
Work = Callable[[dg.AssetExecutionContext, Platform, list[Table]], TableMetadata]


def table_step(
    layer: str,
    source: BaseSource,
    *,
    work: str | None = None,
    tags: Mapping[str, str] | None = None,
    version_of: VersionOf | None = None,
) -> Callable[[Work], dg.AssetsDefinition]:
    """Make a function the layer's step; it is given the tables that the run has selected. `work` names the step, `tags` are the
    op's. With `version_of` a table is materialized where its rows have changed, and else observed; without, it is a log."""

    def make(materialize: Work) -> dg.AssetsDefinition:
        specs = [table_spec(layer, source, table) for table in source.tables]

        @dg.multi_asset(specs=specs, name=names.op_name(work or layer, source), can_subset=True, op_tags=tags)
        def step(
            context: dg.AssetExecutionContext, platform: PlatformResource
        ) -> Iterator[dg.MaterializeResult | dg.AssetObservation]:
            selected = [table for table in source.tables if asset_key(layer, source, table) in context.selected_asset_keys]
            done = ((asset_key(layer, source, table), table, shown) for table, shown in materialize(context, platform, selected))
            if version_of is None:
                log = dg.DataVersion(LOG_VERSION)
                yield from (dg.MaterializeResult(asset_key=k, metadata=m, data_version=log) for k, _, m in done)
                return
            last = last_materializations(context.instance, [asset_key(layer, source, table) for table in selected])
            before = {key: version_in(event) for key, event in last.items()}
            yield from _tell_changes(
                context,
                (
                    (key, metadata, version_of(platform.lake, table, metadata, before.get(key)), before.get(key))
                    for key, table, metadata in done
                ),
            )

        return step

    return make


def _tell_changes(
    context: dg.AssetExecutionContext, done: Iterator[tuple[dg.AssetKey, Mapping[str, Any], str | None, str | None]]
) -> Iterator[dg.MaterializeResult | dg.AssetObservation]:
    """What has changed as it comes, and at the end what has not.

    Dagster starts nothing behind an asset that a step has not materialized, and shows each asset as failed that a failed step
    has not. So what has not changed is materialized where the run goes on behind it, and where the step fails.
    """
    same: list[tuple[dg.AssetKey, Mapping[str, Any], str]] = []
    try:
        for key, metadata, version, before in done:
            if version is not None and version == before and not _goes_on_behind(context, key):
                same.append((key, metadata, version))
            else:
                yield dg.MaterializeResult(
                    asset_key=key, metadata=metadata, data_version=None if version is None else dg.DataVersion(version)
                )
    except Exception:
        yield from (dg.MaterializeResult(asset_key=k, metadata=m, data_version=dg.DataVersion(v)) for k, m, v in same)
        raise
    yield from (observation(key, metadata, version) for key, metadata, version in same)


def _goes_on_behind(context: dg.AssetExecutionContext, key: dg.AssetKey) -> bool:
    graph = context.job_def.asset_layer.asset_graph
    node = graph.get(key)
    return bool(node.check_keys or node.child_keys & set(graph.executable_asset_keys))


@dataclass(frozen=True)
class CheckRun(Generic[Subject]):
    """One run of a step of checks: the source on its platform, and what the selected checks are about."""

    chain: Chain[BaseSource]
    selected: Mapping[dg.AssetCheckKey, Subject]
    context: dg.AssetCheckExecutionContext

    @property
    def captured(self) -> Chain[CapturedSource]:
        """The same source, of a check that only captured ones have."""
        assert self.chain.source.captured is not None
        return Chain(self.chain.platform, self.chain.source.captured)

    def subjects_of(self, spec: CheckSpec[Subject]) -> list[Subject]:
        """What the selected checks of one row are about."""
        return [subject for key, subject in self.selected.items() if key.name == spec.name]


Judge = Callable[[CheckRun[Subject]], Iterator[dg.AssetCheckResult]]


@dataclass(frozen=True)
class CheckStep(Generic[Subject]):
    """The checks that are answered by one look, all of one link of the chain.

    A step with checks of several links is in a cycle with them. Dagster then splits it, and names the parts by the order of
    a set: another order in each process, so a step that runs in a process of its own ran the checks of another link.
    """

    step_name: str
    specs: tuple[CheckSpec[Subject], ...]
    judge: Judge[Subject]

    def build(self, source: BaseSource) -> list[dg.AssetChecksDefinition]:
        """One subsettable step for all that the checks are about in the source; none where that is nothing."""
        subjects = {key: subject for spec in self.specs for key, subject in spec.keys(source).items()}
        specs = [definition for spec in self.specs for definition in spec.definitions(source)]
        if not specs:
            return []

        @dg.multi_asset_check(name=names.op_name(self.step_name, source), specs=specs, can_subset=True)
        def step(context: dg.AssetCheckExecutionContext, platform: PlatformResource) -> Iterator[dg.AssetCheckResult]:
            keys = context.selected_asset_check_keys
            selected = {key: subject for key, subject in subjects.items() if key in keys}
            yield from self.judge(CheckRun(Chain(platform, source), selected, context))

        return [step]


def check_step(step_name: str, *specs: CheckSpec[Subject]) -> Callable[[Judge[Subject]], CheckStep[Subject]]:
    """Make a function the step of these checks: it answers those that a run has selected."""
    return lambda judge: CheckStep(step_name, specs, judge)
