"""`cdc replay` as a job of Dagster: launched with a source and a table, told as a materialization of the silver asset."""

from typing import Any

import dagster as dg
from pydantic import Field

from cdc_assets.defs.jobs import REPLAY_JOB
from cdc_assets.defs.keys import asset_key
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.defs.told_changes import materialization, silver_version
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.replay.replay_table import Replayed, ReplayWish, replay_table, undo_replay
from cdc_assets.silver_now.current_table import find_source


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
            versions = undo_replay(platform, source, table, context.log.info, dry_run=config.dry_run)
            metadata: dict[str, Any] = {"cdc/replay_undone": dg.MetadataValue.json(versions)}
        else:
            wish = ReplayWish(tuple(config.keys), config.since, config.until, config.as_new, config.dry_run)
            metadata = replay_metadata(replay_table(platform, source, table, wish, context.log.info))
        context.add_output_metadata(metadata)
        if not config.dry_run:
            context.log_event(_materialization(platform.lake, source, table, metadata))

    @dg.graph(name=REPLAY_JOB)
    def steps() -> None:
        replay()

    return steps.to_job(description="Make a table again from bronze by today's rules, and swap it in (cdc replay).")


def _materialization(lake: str, source: BaseSource, table: Table, metadata: dict[str, Any]) -> dg.AssetMaterialization:
    version = silver_version(lake, source, table)
    return materialization(asset_key("silver", source, table), metadata, version, description="by a replay")


def replay_metadata(done: Replayed) -> dict[str, Any]:
    """What differs, as figures, and the whole answer."""
    answer = done.to_json()
    told = {f"cdc/replay_{layer}_{kind}": n for layer, each in answer["difference"].items() for kind, n in each["rows"].items()}
    return {**told, "cdc/replay_swapped": answer["swapped"], "cdc/replay": dg.MetadataValue.json(answer)}
