"""Whether a server is the one that the connector's offset is of, from what is remembered and what is there; a connector of
another one is stopped and refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from cdc_assets.capture.incarnations.server_facts import Known, Memory, ServerFacts, WitnessRows, lsn_bytes, lsn_text
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names
from cdc_assets.registry.errors import CdcAssetsError, RefusalError
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource
from spark.errors import quantity

VerdictKind = Literal["same", "continued", "other"]


@dataclass(frozen=True)
class Verdict:
    """`same`; `continued`: a promoted standby that has all that was read, and the slot; `other`, and why."""

    kind: VerdictKind
    reason: str = ""


def server_verdict(
    known: Known | None, facts: ServerFacts, *, reached: int, captured: bool, stored: int | None = None
) -> Verdict:
    """`reached` is the highest log position that the connector, or bronze, has read; `captured`: the connector has an offset.
    `stored` is the same as `reached`, asked for behind `facts`: not before its slot was looked at.

    What cannot be shown to go on without a hole is `other`: a table read again too often costs time, a hole costs rows.
    A home that remembers the server of an epoch before remembers nothing of this one: another home has opened it.
    """
    if reached > facts.wal:
        text = f"{lsn_text(reached)} has been read, and its log ends at {lsn_text(facts.wal)}: it was restored, or is another one"
        return Verdict("other", text)
    if known is None or is_of_earlier_epoch(known, facts):
        return _slot(facts, captured=captured, stored=stored)
    if facts.system != known.system:
        return Verdict("other", f"its identifier is {facts.system}, what was read is of {known.system}")
    if facts.timeline != known.timeline:
        return _promotion_verdict(known, facts, reached=reached, captured=captured, stored=stored)
    if lacks := _lacking_witness(known, facts.witness):
        return Verdict("other", f"the witness written at the last look ({known.at}) {lacks}: it was restored to a moment before")
    return _slot(facts, captured=captured, stored=stored)


def place_of_reading(connector: int, events: int, known: Known | None, facts: ServerFacts) -> int:
    """How far the log has been read, by the connector's own place and by the positions of bronze's events.

    Where the witness shows the very server that was read, an event beyond its log was not written by it, and says nothing
    of a restore; the fold holds such an event in quarantine (tables.log_ends).
    """
    forged = events > facts.wal >= connector and is_still(known, facts)
    return connector if forged else max(connector, events)


def is_still(known: Known | None, facts: ServerFacts) -> bool:
    """Whether the witness shows the very server that was read: its log has only grown since."""
    if known is None:
        return False
    same = (facts.system, facts.timeline) == (known.system, known.timeline) and not is_of_earlier_epoch(known, facts)
    return same and known.looks > 0 and not _lacking_witness(known, facts.witness)


def is_of_earlier_epoch(known: Known, facts: ServerFacts) -> bool:
    """Whether another home has since taken another server for the one that is read."""
    return facts.witness is not None and facts.witness.epochs > known.epochs


def _lacking_witness(known: Known, witness: WitnessRows | None) -> str:
    """What the rows lack of those that this home wrote; "": nothing. Rows of other homes say nothing."""
    if not known.looks:
        return ""
    if witness is None:
        return "is gone"
    if witness.epochs < known.epochs:
        return f"is an older one, with {quantity(witness.epochs, 'epoch')} of {known.epochs}"
    looks = witness.looks.get(known.home)
    if looks is None:
        return "is gone"
    return f"is an older one, with {quantity(looks, 'look')} of {known.looks}" if looks < known.looks else ""


def _promotion_verdict(known: Known, facts: ServerFacts, *, reached: int, captured: bool, stored: int | None) -> Verdict:
    fork = facts.forks.get(known.timeline)
    what = f"it is on timeline {facts.timeline}, what was read is of timeline {known.timeline}"
    if fork is None:
        return Verdict("other", f"{what}, from which it does not descend")
    if reached > fork:
        return Verdict(
            "other", f"{what}, left at {lsn_text(fork)}, and {lsn_text(reached)} had been read: it lacks what lies between"
        )
    lost = _slot(facts, captured=captured, stored=stored)
    if lost.kind == "other":
        return Verdict("other", f"{what}; {lost.reason}")
    if captured and facts.slot is not None and not facts.slot.get("synced"):
        return Verdict("other", f"{what}, and its slot did not come from there: it was made after the promotion")
    return Verdict("continued", f"{what}, left at {lsn_text(fork)} behind all that was read, and the slot came with it")


def _slot(facts: ServerFacts, *, captured: bool, stored: int | None) -> Verdict:
    """A slot is only ever moved on to where the connector's offset is by then: Connect keeps that first.

    The server sends nothing from before its slot's position, and Debezium's `trust_offset` asks only for the log that the slot
    keeps (3.7.0: `PostgresConnection.validateLogPosition` compares restart_lsn), so it would start behind the hole in silence.
    """
    if not captured:
        return Verdict("same")
    if facts.slot is None:
        return Verdict("other", "its replication slot is gone, and with it every change since the connector's offset")
    reason = facts.slot.get("invalidation_reason")
    if reason or facts.slot.get("wal_status") == "lost":
        return Verdict("other", f"its replication slot is invalidated ({reason or 'wal_removed'}): changes are lost")
    at = facts.slot.get("confirmed_flush_lsn")
    if stored is not None and at is not None and lsn_bytes(str(at)) > stored:
        text = f"its replication slot is at {at}, and {lsn_text(stored)} is the last that was read"
        return Verdict("other", f"{text}: it was moved, or offsets were set back; what lies between is not sent any more")
    return Verdict("same")


class ServerEpoch(Protocol):
    """What a new epoch does at the server itself."""

    def forget(self) -> None:
        """What keeps the connector's place there is gone."""

    def facts(self) -> Any:
        """What the server is now."""

    def adopt(self, platform: Platform, memory: Memory, facts: Any) -> None:
        """Take it, as `facts` told it, for the one that is known; writes `memory`."""


def verdict(
    chain: Chain[CapturedSource], offsets: Sequence[Mapping[str, Any]] | None = None, known: Known | None = None
) -> Verdict:
    """Whether its connector may go on from where it is, or from these offsets; of a kind that is not told, it may.

    `known`: the server that has been read, where nobody here remembers it.

    Raises CdcAssetsError: the server, Connect or the lake cannot be asked.
    """
    from cdc_assets.capture.kind_capture import capture_of

    judge = capture_of(chain.source).incarnation
    return judge(chain, offsets, known) if judge else Verdict("same")


def note_server(chain: Chain[CapturedSource]) -> None:
    """Remember the server as it is now, with its witness: a restore to a moment after this will be told.

    `preflight` writes nothing; who looks with a rhythm notes besides. A server that cannot be asked is preflight's to tell.
    """
    with suppress(CdcAssetsError):
        verdict(chain)


def refuse_other(chain: Chain[BaseSource]) -> None:
    """Before a connector is let run. Raises RefusalError: its server is another incarnation; the connector is stopped by now."""
    captured = chain.source.captured
    if captured is None:
        return
    judged = verdict(Chain(chain.platform, captured))
    if judged.kind != "other":
        return
    stop_connector(Chain(chain.platform, captured))
    raise RefusalError(refusal(captured, judged))


def stop_connector(chain: Chain[CapturedSource]) -> None:
    """Its connector reads nothing more; one that git owns is git's to stop (`refusal` says so)."""
    if chain.source.managed_by == "gitops":
        return
    connect, name = chain.platform.core_connect(chain.source.cluster), names.connector_name(chain.source)
    if connect.status(name) is not None:
        connect.stop(name)


def refusal(source: CapturedSource, verdict: Verdict) -> str:
    """What is wrong, and the command that mends it."""
    if source.managed_by == "gitops":
        stop = f"put state: stopped into the manifest of {names.connector_name(source)}, which is managed_by: gitops; then "
    else:
        stop = ""
    return (
        f"the server of source {source.name} does not go on where it was read: {verdict.reason}. Its connector must not go on "
        f"from its offset: {stop}cdc repair source {source.name} opens a new epoch, with every table read again"
    )
