"""The source's log, kept from where its backup ends (`backup.keep_log`): it moves on with the backup, and a restore begins
there. A PostgreSQL keeps it by a second slot, from which the connector's is copied.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from cdc_assets.backup.backup_position import backup_position
from cdc_assets.backup.platform_log import PlatformEntry, PlatformState, look_at_platform, newest_section, write_state
from cdc_assets.capture.incarnations.postgresql_incarnation import drop_idle_slot, ends_in_core, look, offsets_at
from cdc_assets.capture.incarnations.server_facts import Known, Memory, SeenStarts
from cdc_assets.capture.log_position import CaughtUpTimeoutError, topics_to_lake
from cdc_assets.chain.quarantine import records_given_up
from cdc_assets.clients.databases.postgresql_capture import PostgresSlots, slot_of_kept_log
from cdc_assets.clients.delta_log import bronze_committed
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names
from cdc_assets.registry.databases import Database
from cdc_assets.registry.kinds import expect
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource, Source
from cdc_assets.registry.source_state import SourceState

_MIRROR_SECONDS = 10.0
# Topics that were made again meanwhile never come to the ends that were noted.
_NOTE_AGAIN_SECONDS = 24 * 3600.0


class KeptLog(Protocol):
    """A place of a server's log from which the server keeps it. Places are numbers."""

    def place(self) -> int | None:
        """Where it is; None: the server keeps none for us, or has lost it."""

    def connector_place(self) -> int | None:
        """All before it has been captured, and is in the topics; None: nothing has been captured yet."""

    def begin(self) -> None:
        """Let the server keep the log from the connector's place on."""

    def move_on(self, place: int) -> None:
        """Let the log before the place go."""

    def end(self) -> None:
        """Let all of it go."""

    def offsets(self, offsets: tuple[Mapping[str, Any], ...]) -> tuple[Mapping[str, Any], ...]:
        """The connector's offsets, brought to its place."""

    def what_is_wrong(self, platform: Platform, offsets: tuple[Mapping[str, Any], ...], known: Known | None) -> str:
        """Why a connector must not go on from there; empty: it may. `known`: the server, where nobody here remembers it."""

    def hand_over(self, platform: Platform) -> None:
        """Let the connector, which does not run, go on from there."""


@dataclass(frozen=True)
class _Awaited:
    """A place that the backup has everything before, once it has the lake's topics up to `ends`; `at`: seconds since 1970."""

    log_place: int
    ends: Mapping[str, Mapping[int, int]]
    at: float


def keep_platform(chain: Chain[BaseSource], store: ObjectStore) -> PlatformEntry | None:
    """Write what the backup needs besides data, and let the kept log move on; the entry, where something has changed.

    A backup run looks where the connector's own place is, and where the topics end by then; all before that place lies before
    those ends (ADR 40). Once the backup has them, it says so, and lets the log before that place go:

        place ─▶ ends of the topics ─▶ the backup has them ─▶ an entry says "all before the place" ─▶ the kept log moves there

    So the kept log never begins behind what the newest entry says, wherever a run is killed.

    Raises:
        CdcAssetsError: Connect, a cluster, the database or the store cannot be asked.
    """
    log, facts = (
        _log_of(chain.source),
        {"server": _server_of(chain.source), "given_up": records_given_up(chain.platform.lake, chain.source)},
    )
    newest = newest_section(store, chain.source.name, "kept_log") if log is not None else {}
    if log is None or chain.source.backup is None or not chain.source.backup.keep_log:
        if log is not None and newest:
            log.end()
        return write_state(store, chain.source.name, look_at_platform(chain, **facts))
    there = log.place() is not None
    place_note = {"place": log_place} if there and (log_place := _place_reached(chain, store, log) or newest.get("place")) else {}
    entry = write_state(store, chain.source.name, look_at_platform(chain, kept_log=place_note, **facts))
    if place_note:
        log.move_on(place_note["place"])
    elif not there and log.connector_place() is not None:
        _state(chain.source).write(None)
        log.begin()
    return entry


def find_kept_log(source: CapturedSource, kept: PlatformState) -> KeptLog | None:
    """The log, if the server has all of it that is behind the backup; None where it has not, or is not asked to."""
    log, kept_place = _log_of(source), kept.kept_log.get("place")
    at = log.place() if log is not None else None
    return log if at is not None and kept_place is not None and at <= kept_place else None


def _server_of(source: BaseSource) -> dict[str, Any]:
    memory = Memory.of(source.name).known
    return {} if memory is None else {"system": memory.system, "timeline": memory.timeline, "at": memory.at}


def _log_of(source: BaseSource) -> KeptLog | None:
    from cdc_assets.recovery.kind_recovery import recovery_of

    kept_log = recovery_of(source).kept_log
    return None if kept_log is None else kept_log(source)


def _place_reached(chain: Chain[BaseSource], store: ObjectStore, log: KeptLog) -> int | None:
    state = _state(chain.source)
    awaited = _parse_awaited(state.read())
    if awaited is None or time.time() - awaited.at > _NOTE_AGAIN_SECONDS:
        if (awaited := _look(chain, log)) is None:
            return None
        state.write(asdict(awaited))
    if not all(_has(chain, store, topic, ends) for topic, ends in awaited.ends.items()):
        return None
    state.write(None)
    return awaited.log_place


def _look(chain: Chain[BaseSource], log: KeptLog) -> _Awaited | None:
    log_place = log.connector_place()
    if log_place is None:
        return None
    try:
        ends = topics_to_lake(chain, time.monotonic() + _MIRROR_SECONDS)
    except CaughtUpTimeoutError:  # the mirror is behind; the next run looks again
        return None
    return _Awaited(log_place, ends, time.time())


def _has(chain: Chain[BaseSource], store: ObjectStore, topic: str, ends: Mapping[int, int]) -> bool:
    # A range without records makes no manifest, so the positions alone may lie behind.
    table = next(one for one in chain.source.tables if names.lake_topic(chain.source, one) == topic)
    copied = backup_position(store, source=chain.source.name, table=names.table_name(table))
    if all(copied.positions.get(p, 0) >= end for p, end in ends.items()):
        return True
    committed = bronze_committed(chain.bronze_path)
    bronze = committed.topics.get(topic) if committed else None
    if bronze is None or any(bronze.positions.get(p, 0) < end for p, end in ends.items()):
        return False
    return bronze.records_ahead_of(copied) <= 0


def _parse_awaited(document: Any) -> _Awaited | None:
    if document is None:
        return None
    ends = {topic: {int(p): end for p, end in at.items()} for topic, at in document["ends"].items()}
    return _Awaited(document["log_place"], ends, document["at"])


def _state(source: BaseSource) -> SourceState:
    return SourceState(source.name, "kept log")


class PostgresKeptLog:
    """By positions of the log in bytes (KeptLog)."""

    def __init__(self, source: Source) -> None:
        self._source, self._slots = source, PostgresSlots(expect(source.database, Database))
        self._connector_slot = names.slot_name(source)
        self._slot = slot_of_kept_log(self._connector_slot)

    def place(self) -> int | None:
        """Where the second slot is."""
        return self._slots.slot_place(self._slot)

    def connector_place(self) -> int | None:
        """Where the connector's slot is: Connect keeps an offset, and so what lies before it, before the slot moves there."""
        return self._slots.slot_place(self._connector_slot)

    def begin(self) -> None:
        """Copy the connector's slot. The connector may run meanwhile."""
        self._slots.copy_slot(self._connector_slot, self._slot)

    def move_on(self, place: int) -> None:
        """Advance the second slot: the server decodes what lies between, and sends nothing."""
        self._slots.advance_slot(self._slot, place)

    def end(self) -> None:
        """Drop the second slot."""
        self._slots.drop_slot(self._slot)

    def offsets(self, offsets: tuple[Mapping[str, Any], ...]) -> tuple[Mapping[str, Any], ...]:
        """The offsets, moved to the second slot's place: ahead of it the connector would skip what lies between."""
        return tuple(offsets_at(offsets, self.place() or 0))

    def what_is_wrong(self, platform: Platform, offsets: tuple[Mapping[str, Any], ...], known: Known | None) -> str:
        """What speaks against the second slot and these offsets, by the server's own facts; empty: nothing."""
        slot_verdict = look(Chain(platform, self._source), offsets, slot=self._slot, known=known).verdict
        return slot_verdict.reason if slot_verdict.kind == "other" else ""

    def hand_over(self, platform: Platform) -> None:
        """The connector's slot begins again at the second one's place. What the topics hold by now was before its start."""
        drop_idle_slot(self._source)
        self._slots.copy_slot(self._slot, self._connector_slot)
        memory = Memory.of(self._source.name)
        memory.seen = SeenStarts(stored=self.place() or 0, ends=ends_in_core(Chain(platform, self._source)))
        memory.save()
