"""What MirrorMaker 2 does for a source besides copying its topics."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from cdc_assets.registry.declared import Declared
from cdc_assets.registry.durations import Duration


class Checkpoints(Declared):
    """Consumer groups of the core cluster whose place is told in the lake's: names, or regular expressions over the whole name.

    `sync_offsets` also commits that place for the group in the lake's cluster, while nobody reads there under its name.
    """

    groups: tuple[str, ...] = Field(min_length=1)
    every: Duration = timedelta(seconds=60)
    sync_offsets: bool = False


class Mirror(Declared):
    """`heartbeats` is how often a mark is written to the topic `heartbeats` of the lake's cluster; none without it."""

    checkpoints: Checkpoints | None = None
    heartbeats: Duration | None = None
