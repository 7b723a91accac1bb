"""Repairs a mirrored topic after a loss: MirrorMaker reads it again where its offsets are another topic's, and the table is
snapshotted again where records are gone for good. Each step may be repeated; records that come twice are folded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cdc_assets import names
from cdc_assets.connectors.owner import refuse_write
from cdc_assets.errors import MirrorError
from cdc_assets.mirroring import memory
from cdc_assets.mirroring.loss_detection import MirrorState, mirror_states
from cdc_assets.onboarding import run as onboarding
from cdc_assets.onboarding.declared_source import takes
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.connect import SourceOffset
from cdc_assets.resources.platform import Platform

Say = Callable[[str], None]
_BY_HAND = (
    "nobody can be asked for it from here. What is lost stays lost in the topic; cdc reconcile {source}.{table} names the rows "
    "that silver lacks, where it can compare them"
)
# MirrorMaker's offset is of records that are not there any more: it must begin at the topic's begin.
_AGAIN = ("recreated", "truncated")


@dataclass(frozen=True)
class RepairPlan:
    """What a repair does, in words and in order."""

    source: BaseSource
    table: Table
    state: MirrorState
    again: bool
    snapshot: bool
    unread: str = ""
    """Why the table is not read again, where nobody of ours can ask for it."""

    @property
    def steps(self) -> list[str]:
        """Empty where nothing is wrong."""
        topic, mirror = self.state.topic, names.mirror_connector_name(self.source)
        if not self.state.repair:
            return []
        found = [f"stop {mirror}, forget its offsets of {topic}, let it run: it is copied again from its begin"] * self.again
        found += [f"read table {self.table.name} again: cdc onboard {self.source.name} {self.table.name} --again"] * self.snapshot
        found += [f"{self.table.name} is not read again: {self.unread}"] * bool(self.unread)
        return [*found, "take the topic as it is now for the whole one"]


def plan(platform: Platform, sources: Sequence[BaseSource], topic: str, *, snapshot: bool = True) -> RepairPlan:
    """How to repair the mirror of a core topic.

    Raises:
        MirrorError: when no source mirrors that topic.
    """
    for source in sources:
        for table in source.tables if names.is_mirrored(source) else ():
            if names.topic(source, table) == topic:
                state = next(each for each in mirror_states(platform, source) if each.topic == topic)
                again = any(finding.kind in _AGAIN for finding in state.findings)
                unread = "" if takes(source) else _BY_HAND.format(source=source.name, table=names.table_name(table))
                return RepairPlan(source, table, state, again, snapshot and not unread, unread)
    known = ", ".join(names.topic(s, t) for s in sources if names.is_mirrored(s) for t in s.tables)
    raise MirrorError(f"no source mirrors topic {topic}; mirrored are: {known or 'none'}")


def repair(platform: Platform, chosen: RepairPlan, say: Say) -> MirrorState:
    """Do it, and look again.

    Raises:
        MirrorError: when the topic is not there to be mirrored.
        CdcAssetsError: from a step that failed; the repair may be asked for again.
    """
    if not chosen.state.repair:
        return chosen.state
    source, topic = chosen.source, chosen.state.topic
    refuse_write(source, f"cdc repair mirror {topic}")
    if chosen.state.topic_id is None:
        raise MirrorError(f"topic {topic} is not on the core cluster: let the connector make it again first: cdc apply")
    if chosen.again:
        say(f"copying {topic} again from its begin")
        _forget(platform, source, topic)
    if chosen.snapshot:
        say(f"reading table {chosen.table.name} again")
        onboarding.begin(source.name, [chosen.table.name], "incremental", again=True)
        onboarding.go_on(platform, source.name, say)
    _accept(platform, source, topic)
    return next(each for each in mirror_states(platform, source) if each.topic == topic)


def _accept(platform: Platform, source: BaseSource, topic: str) -> None:
    """The topic as it begins now is the whole one: what is gone before that is no loss of the next look."""
    seen, state = memory.load(source.name), platform.core_kafka(source.cluster).states([topic])[topic]
    seen[topic] = memory.SeenTopic(state.topic_id, {partition: begin for partition, (begin, _) in state.ranges.items()})
    memory.save(source.name, seen)


def _forget(platform: Platform, source: BaseSource, topic: str) -> None:
    connect, name = platform.lake_connect(), names.mirror_connector_name(source)
    connect.stop(name)
    try:
        mine = [entry for entry in connect.offsets(name) if entry["partition"]["topic"] == topic]
        if mine:
            connect.patch_offsets(name, [SourceOffset(entry["partition"], None) for entry in mine])
    finally:
        connect.resume(name)
    connect.wait_running(name)
