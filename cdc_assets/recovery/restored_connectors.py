"""Creates a source's connectors again, with offsets, so that they go on where they were.

| connector | its offsets |
|---|---|
| capture | those that Connect has kept, else the backup's; a slot that is ahead of them says how far the topics reach (ADR 40) |
| capture whose topics are gone | the place from which the source keeps its log for the backup (kept_log) |
| mirror | told by the copies themselves (copied_place): whatever was stored may be older, and would copy records twice |
| checkpoints, heartbeats | none: they have nothing to go on from |

Capture begins a new epoch, and reads every table again (chain.new_epoch), where the source's log does not reach back: its
slot is gone, its binlog is purged, or a topic of the core is gone with what it alone held, and nobody has kept the log. Each
connector is created STOPPED and marked (connectors.connector_start), so that the next call goes on after a kill.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdc_assets.backup.platform_log import PlatformState, newest_state
from cdc_assets.capture.connectors.connector_inventory import refuse_write
from cdc_assets.capture.connectors.connector_restart import has_place
from cdc_assets.capture.connectors.connector_start import create_stopped, is_beginning, run_created
from cdc_assets.capture.connectors.declared_connectors import DeclaredConnector, declared_connectors
from cdc_assets.capture.connectors.setting_overrides import settle
from cdc_assets.capture.incarnations.postgresql_incarnation import offsets_at_slot
from cdc_assets.capture.incarnations.server_facts import Known
from cdc_assets.capture.incarnations.server_verdict import verdict
from cdc_assets.capture.kind_capture import capture_of
from cdc_assets.chain.new_epoch import open_epoch
from cdc_assets.clients.connector_states import SourceOffset
from cdc_assets.clients.source_chain import Chain, Say
from cdc_assets.recovery.kept_log import KeptLog, find_kept_log
from cdc_assets.recovery.lost_topics import mirror_offsets_of
from cdc_assets.recovery.topic_plan import backup_store
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.kinds import kind_of
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource

# What data goes through first comes last: nothing is captured before all behind it is there.
_ORDER = ("mirror", "checkpoints", "heartbeats", "capture")
THERE, GOES_ON, BEGINS, EPOCH = "is there", "goes on", "begins", "new epoch"


@dataclass(frozen=True)
class ConnectorPlan:
    """What becomes of a connector: it is there, goes on from `offsets`, begins without any, or reads all in a new epoch."""

    declared: DeclaredConnector
    way: str
    reason: str
    offsets: tuple[Mapping[str, Any], ...] = ()
    kept_log: KeptLog | None = None

    def to_json(self) -> dict[str, Any]:
        """What `-o json` prints of it."""
        offsets = [dict(entry) for entry in self.offsets]
        about = {"connector": self.declared.name, "cluster": self.declared.cluster, "role": self.declared.role}
        return {**about, "way": self.way, "reason": self.reason, "offsets": offsets}


def plan_connectors(chain: Chain[BaseSource]) -> list[ConnectorPlan]:
    """In the order in which they are created; nothing is changed.

    Raises:
        RefusalError: the backup has nothing of them, or capture can neither go on nor begin a new epoch.
    """
    newest = newest_state(backup_store(chain), chain.source.name)
    if newest is None:
        raise RefusalError(
            f"the backup of source {chain.source.name} has no connectors: no entry of its platform log is there; "
            f"cdc apply {chain.source.name} begins anew, with every table read"
        )
    declared = sorted(declared_connectors([chain.source]), key=lambda each: _ORDER.index(each.role))
    return [_plan(chain, connector, newest[1]) for connector in declared]


def restore_connectors(chain: Chain[BaseSource], say: Say) -> list[ConnectorPlan]:
    """Create what is missing, and wait until it runs; what was done.

    Raises:
        CdcAssetsError: a step failed; the next call goes on with it.
    """
    refuse_write(chain.source, f"cdc restore {chain.source.name} --connectors")
    done = []
    for plan in plan_connectors(chain):
        say(f"{plan.declared.name} {plan.way}: {plan.reason}")
        if plan.way != THERE:
            plan = _restore(chain, plan, say)
        done.append(plan)
    return done


def _plan(chain: Chain[BaseSource], declared: DeclaredConnector, kept: PlatformState) -> ConnectorPlan:
    connect = chain.platform.connect(declared.cluster)
    config = connect.config(declared.name)
    if config is not None and not is_beginning(config):
        return ConnectorPlan(declared, THERE, "Connect has it")
    if declared.role == "mirror":
        offsets = [offset.to_json() for offset in mirror_offsets_of(chain, [table.name for table in chain.source.tables])]
        placed = tuple(offset for offset in offsets if offset["offset"])
        return ConnectorPlan(declared, GOES_ON if placed else BEGINS, "behind the last records of the copies", placed)
    if declared.role == "capture" and chain.source.captured is not None:
        return _plan_capture(Chain(chain.platform, chain.source.captured), declared, kept)
    return ConnectorPlan(declared, BEGINS, "it has no offsets of its own")


def _plan_capture(chain: Chain[CapturedSource], declared: DeclaredConnector, kept: PlatformState) -> ConnectorPlan:
    before = kept.topics.get("core", {})
    states = chain.platform.core_kafka(chain.source.cluster).states(list(before))
    if lost := sorted(name for name, was in before.items() if name not in states or states[name].topic_id != was["id"]):
        reason = f"{', '.join(lost)} of the core are not the topics of the backup: what they alone held is gone"
        return _plan_behind_backup(chain, declared, kept, reason)
    connect, origin = chain.platform.connect(declared.cluster), "from the offsets that Connect has"
    offsets: Sequence[Mapping[str, Any]] = connect.offsets(declared.name) if connect.config(declared.name) else ()
    if not has_place(offsets):
        offsets, origin = kept.offsets.get(declared.name, ()), "from the offsets of the backup"
        if chain.source.asked is not None and kind_of(chain.source.asked).has_slot:
            offsets = offsets_at_slot(chain.source.asked, offsets)
    if not has_place(offsets):
        return ConnectorPlan(declared, BEGINS, "the backup's offsets name no place: its first snapshot was not done")
    place_verdict = verdict(chain, offsets, _server_of(kept))
    if place_verdict.kind == "other":
        return _plan_epoch(chain.source, declared, place_verdict.reason)
    return ConnectorPlan(declared, GOES_ON, origin, tuple(offsets))


def _plan_behind_backup(
    chain: Chain[CapturedSource], declared: DeclaredConnector, kept: PlatformState, lost: str
) -> ConnectorPlan:
    """It goes on where the backup ends, if the source has its log from there on; else a new epoch begins."""
    log, offsets = find_kept_log(chain.source, kept), tuple(kept.offsets.get(declared.name, ()))
    if log is None or not has_place(offsets):
        return _plan_epoch(chain.source, declared, lost)
    offsets = log.offsets(offsets)
    if wrong := log.what_is_wrong(chain.platform, offsets, _server_of(kept)):
        return _plan_epoch(chain.source, declared, f"{lost}; {wrong}")
    return ConnectorPlan(declared, GOES_ON, "where the backup ends: the source has kept its log from there", offsets, log)


def _server_of(kept: PlatformState) -> Known | None:
    # Without the witness: the backup has an older one than the server.
    server = kept.server
    return Known(server["system"], server["timeline"], server["at"]) if server else None


def _plan_epoch(source: CapturedSource, declared: DeclaredConnector, reason: str) -> ConnectorPlan:
    if capture_of(source).incarnation is None:
        raise RefusalError(
            f"source {source.name}: {reason}, and no new epoch is opened for kind {source.database.kind}; "
            f"cdc apply {source.name} begins anew, with every table read: rows that were deleted meanwhile stay in silver"
        )
    return ConnectorPlan(declared, EPOCH, reason)


def _restore(chain: Chain[BaseSource], plan: ConnectorPlan, say: Say) -> ConnectorPlan:
    declared, connect = plan.declared, chain.platform.connect(plan.declared.cluster)
    if declared.role == "capture" and chain.source.captured is not None:
        return _restore_capture(Chain(chain.platform, chain.source.captured), plan, say)
    config = settle(declared.config, connect.config(declared.name))
    create_stopped(connect, config, _source_offsets(plan.offsets), keep=False)
    run_created(connect, config)
    if declared.role != "mirror" or plan.offsets:
        connect.wait_running(declared.name)
    return plan


def _restore_capture(chain: Chain[CapturedSource], plan: ConnectorPlan, say: Say) -> ConnectorPlan:
    connect = chain.platform.connect(plan.declared.cluster)
    if plan.way == EPOCH:
        for topic, epoch in sorted(open_epoch(chain, plan.reason, say).items()):
            say(f"{topic}: epoch {epoch}")
        return plan
    if plan.kept_log is not None:
        # Before its offsets, which are of that place.
        plan.kept_log.hand_over(chain.platform)
    config = settle(plan.declared.config, connect.config(plan.declared.name))
    create_stopped(connect, config, _source_offsets(plan.offsets), keep=plan.kept_log is None)
    run_created(connect, config)
    connect.wait_running(config["name"])
    return plan


def _source_offsets(offsets: Sequence[Mapping[str, Any]]) -> list[SourceOffset]:
    return [SourceOffset(dict(entry["partition"]), entry["offset"]) for entry in offsets]
