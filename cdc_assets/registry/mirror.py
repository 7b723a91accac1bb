"""What MirrorMaker 2 does for a source besides copying its topics."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pydantic import Field, field_validator

from cdc_assets.registry.declared import ConnectorName, Declared
from cdc_assets.registry.durations import Duration
from cdc_assets.registry.other_settings import OtherSettings, refuse_settings


class Checkpoints(Declared):
    """Consumer groups of the core cluster whose place is told in the lake's.

    `groups` holds names, or regular expressions over the whole name. `sync_offsets` also commits that place for the group in
    the lake's cluster, while nobody reads there under its name.
    """

    groups: tuple[str, ...] = Field(min_length=1)
    every: Duration = timedelta(seconds=60)
    sync_offsets: bool = False


class Mirror(Declared):
    """What MirrorMaker 2 does for a source besides copying its topics.

    `connector` is the mirror's name on Connect, `alias` what it calls the core cluster (by default the
    source's `cluster`): copies are called `alias.topic`.
    `settings` are its settings that are not ours. `cdc adopt` writes those of a mirror that runs (docs/how-to/adopt.md).
    `new_tables: first` lets an onboarding give the mirror the new tables' topics alone, and old and new ones once the copies are
    there; the old ones wait meanwhile. The default adds them to those that it carries.
    `heartbeats` is how often a mark is written to the topic `heartbeats` of the lake's cluster. Without it there is none.
    `resource` is for a source with managed_by: gitops. It says which Strimzi resource carries its topics, as the deployment's
    `mirror` does.
    """

    resource: Literal["mirrormaker2", "connector"] = "mirrormaker2"

    connector: ConnectorName | None = None
    alias: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_-]{1,60}$")
    settings: OtherSettings = Field(default_factory=dict)
    new_tables: Literal["together", "first"] = "together"
    checkpoints: Checkpoints | None = None
    heartbeats: Duration | None = None

    def alias_of(self, cluster: str) -> str:
        """What it calls the core cluster of that name."""
        return self.alias or cluster

    @field_validator("settings")
    @classmethod
    def _settings_are_not_declared_elsewhere(cls, value: OtherSettings) -> OtherSettings:
        refuse_settings("mirror.settings", value)
        return value


def refuse_mirror(mirror: Mirror, managed_by: str) -> None:
    """What its owner cannot deploy.

    Raises:
        ValueError: naming the key, and what to declare instead.
    """
    if managed_by == "cdc" and "resource" in mirror.model_fields_set:
        raise ValueError("mirror.resource: says how git deploys the mirror; declare managed_by: gitops with it")
    beside = [name for name in ("checkpoints", "heartbeats") if getattr(mirror, name) is not None]
    if managed_by == "gitops" and mirror.resource == "mirrormaker2" and beside:
        said = ", ".join(f"mirror.{name}" for name in beside)
        raise ValueError(f"{said}: one KafkaMirrorMaker2 for all sources has none; declare mirror.resource: connector")
    own = [name for name in ("connector", "alias", "settings", "new_tables") if name in mirror.model_fields_set]
    if managed_by == "gitops" and mirror.resource == "mirrormaker2" and own:
        said = ", ".join(f"mirror.{name}" for name in own)
        raise ValueError(f"{said}: one KafkaMirrorMaker2 carries all sources; declare mirror.resource: connector")
