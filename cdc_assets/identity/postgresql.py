"""One look at a PostgreSQL: which incarnation it is, and whether that is the one that has been read."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cdc_assets import names
from cdc_assets.connectors.first_snapshot import has_place
from cdc_assets.identity.facts import FIRST_HOME, LAST_HOME, IncarnationDatabase, ServerFacts, lsn_bytes
from cdc_assets.identity.judge import Verdict, is_of_earlier_epoch, is_still, place_of_reading, server_verdict
from cdc_assets.identity.memory import Bounds, Known, Memory, SeenStarts
from cdc_assets.identity.starts import Start, StartsTable, find_loss
from cdc_assets.kinds import expect
from cdc_assets.registry.models import Source
from cdc_assets.registry.postgresql import Database
from cdc_assets.resources.captured_events import event_reader
from cdc_assets.resources.delta_log import bronze_committed
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.table_lock import table_lock
from spark.delta.commits import Committed

Offsets = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class IdentityLook:
    """`witnessed`: a witness may be written, so that a restore will show however long the log has grown."""

    facts: ServerFacts
    verdict: Verdict
    reached: int
    witnessed: bool = True
    captured: bool = False
    """Connect has a place of its connector."""


def look(
    platform: Platform, source: Source, offsets: Offsets | None = None, *, slot: str | None = None, known: Known | None = None
) -> IdentityLook:
    """Ask the server and judge; nothing is written anywhere.

    `slot`: the one that would send what is behind `offsets`; the connector's without. `known`: the server that has been read,
    where nobody here remembers it.

    Raises:
        CdcAssetsError: the server, Connect or the lake cannot be asked.
    """
    return _look(platform, source)[0] if offsets is None else _judge(platform, source, offsets, slot, known)


def look_and_note(platform: Platform, source: Source) -> IdentityLook:
    """Look, and remember what is as it was, in the server as well; another incarnation is remembered when its epoch is open.

    Nothing is written to a server of which nothing has been read yet.

    Raises:
        CdcAssetsError: as look.
    """
    with table_lock("incarnation", source.name, "server"):
        found, memory, answered = _look(platform, source)
        memory.save()
        StartsTable(expect(source.database, Database)).forget(names.starts_table(source), answered)
        if found.verdict.kind == "other" or not found.captured:
            return found
        database = IncarnationDatabase(expect(source.database, Database))
        return replace(found, witnessed=remember(database, source, memory, found.facts))


def _judge(platform: Platform, source: Source, offsets: Offsets, slot: str | None, known: Known | None) -> IdentityLook:
    """Of offsets that a connector is to begin with."""
    database, memory = IncarnationDatabase(expect(source.database, Database)), Memory.of(source.name)
    events = _in_bronze(source, bronze_committed(names.bronze_path(platform.lake, source)))
    facts = database.facts(slot or names.slot_name(source), names.witness_table(source))
    at = place_of_reading(log_position(offsets), events, memory.known or known, facts)
    found = server_verdict(memory.known or known, facts, reached=at, captured=has_place(offsets), stored=at)
    return IdentityLook(facts, Verdict("other", memory.opening.reason) if memory.opening is not None else found, at)


def _look(platform: Platform, source: Source) -> tuple[IdentityLook, Memory, tuple[Start, ...]]:
    """What is to be remembered of it, and the starts that have been answered, besides."""
    # The memory before the server: what a look of another process counts meanwhile is more, and no restore.
    database, memory = IncarnationDatabase(expect(source.database, Database)), Memory.of(source.name)
    offsets = platform.core_connect(source.cluster).offsets(names.connector_name(source))
    # Before the server is asked: its log only grows.
    events = _in_bronze(source, bronze_committed(names.bronze_path(platform.lake, source)))
    facts = database.facts(names.slot_name(source), names.witness_table(source))
    at = place_of_reading(log_position(offsets), events, memory.known, facts)
    stored = max(at, log_position(platform.core_connect(source.cluster).offsets(names.connector_name(source))))
    verdict = server_verdict(memory.known, facts, reached=at, captured=has_place(offsets), stored=stored)
    if memory.known is not None and is_of_earlier_epoch(memory.known, facts):
        # What was seen is of another log.
        memory.seen = SeenStarts(ends=ends_in_core(platform, source))
    answered: tuple[Start, ...] = ()
    if verdict.kind != "other" and offsets:
        lost, answered = _lost(platform, source, memory, log_position(offsets))
        verdict = Verdict("other", lost) if lost else verdict
    if memory.opening is not None:
        verdict = Verdict("other", memory.opening.reason)
    captured = has_place(offsets)
    return IdentityLook(facts, verdict, at, witnessed=facts.writable or not captured, captured=captured), memory, answered


def _lost(platform: Platform, source: Source, memory: Memory, read: int) -> tuple[str, tuple[Start, ...]]:
    """What a start of the connector has left out since the last look ("": nothing that is known), and the starts that are
    answered; `memory.seen` is what is to be remembered.
    """
    seen, table = memory.seen, names.starts_table(source)
    if seen.hole:
        return seen.hole, ()
    # Before the starts are asked for: what lies behind the ends is of those that are noted later.
    ends, starts = ends_in_core(platform, source), StartsTable(expect(source.database, Database))
    noted = starts.read(table)
    # A slot at what had been read by the last look has lost nothing, whenever it was noted.
    passed = tuple(start for start in noted if start.slot <= seen.stored)
    open_ = tuple(start for start in noted if start.slot > seen.stored)
    if open_:
        core = platform.core_kafka(source.cluster)
        seen.hole, done = find_loss(core, _topics(source), seen.ends, open_, event_reader(source))
        passed, open_ = passed + done, tuple(start for start in open_ if start not in done)
    if not open_:
        seen.ends, seen.stored = ends, max(seen.stored, read)
    return seen.hole, passed


def ends_in_core(platform: Platform, source: Source) -> Bounds:
    """Where the topics of its connector end."""
    return {topic: dict(state.ends) for topic, state in platform.core_kafka(source.cluster).states(_topics(source)).items()}


def _topics(source: Source) -> list[str]:
    return [*(names.topic(source, table) for table in source.tables), names.marker_topic(source)]


def remember(
    database: IncarnationDatabase, source: Source, memory: Memory, facts: ServerFacts, *, opens_epoch: bool = False
) -> bool:
    """Take this server for the one that is read, and count the look there; False where nothing may be written.

    `opens_epoch`: it is another server than the one before; every other home takes it as well.
    """
    before, table = memory.known, names.witness_table(source)
    home = before.home if before is not None and before.home else random.randint(FIRST_HOME, LAST_HOME)
    epochs = max(before.epochs if before else 0, facts.witness.epochs if facts.witness else 0)
    looks = database.count_look(table, home, before.looks if before else 0) if facts.writable else None
    if looks is not None:
        epochs = (database.count_epoch(table, epochs) or 0) if opens_epoch else epochs
        StartsTable(expect(source.database, Database)).ensure(names.starts_table(source))
    now = dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds")
    memory.known = Known(facts.system, facts.timeline, (), now, home, looks or 0, epochs)
    memory.save()
    return looks is not None


def log_end(source: Source) -> str:
    """Where the log ends that a home has read, as positions have it (spark.positions.postgresql); empty where the server may be
    another one, or nothing is remembered of it.

    Raises:
        DatabaseError: the server cannot be asked.
    """
    from spark.positions.layout import NUMBER_WIDTH

    known = Memory.of(source.name).known
    if known is None or not known.looks:
        return ""
    facts = IncarnationDatabase(expect(source.database, Database)).facts(names.slot_name(source), names.witness_table(source))
    return f"{facts.wal:0{NUMBER_WIDTH}x}" if is_still(known, facts) else ""


def verdict(platform: Platform, source: Source, offsets: Offsets | None = None, known: Known | None = None) -> Verdict:
    """Whether its connector may go on from where it is, which is noted, or from these offsets; `known` as in look."""
    found = look_and_note(platform, source) if offsets is None else look(platform, source, offsets, known=known)
    return found.verdict


def offsets_at_slot(source: Source, offsets: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Offsets of a backup, brought to where the slot is: Connect keeps an offset before the slot moves there (ADR 40), so all
    before it is in the topics. Those without a place, and those that are ahead of the slot, stay as they are.
    """
    slot = IncarnationDatabase(expect(source.database, Database)).facts(names.slot_name(source), names.witness_table(source)).slot
    at = lsn_bytes(str(slot["confirmed_flush_lsn"])) if slot and slot.get("confirmed_flush_lsn") else 0
    moved = offsets_at(offsets, at)
    return [dict(entry) if log_position([entry]) >= at else there for entry, there in zip(offsets, moved, strict=True)]


def offsets_at(offsets: Offsets, at: int) -> list[dict[str, Any]]:
    """Offsets as they would be if all before this place had been read, and nothing else; those without a place stay."""
    return [_at_place(entry, at) if has_place([entry]) else dict(entry) for entry in offsets]


def _at_place(entry: Mapping[str, Any], at: int) -> dict[str, Any]:
    """What its last event was is not known, only that the log was read up to there."""
    kept = {key: value for key, value in entry["offset"].items() if key not in ("txId", "messageType", "lsn_proc", "lsn_commit")}
    return {**entry, "offset": {**kept, "lsn": at, "lsn_proc": at, "lsn_commit": at}}


def log_position(offsets: Sequence[Mapping[str, Any]]) -> int:
    """The highest log position in a connector's offsets."""
    kept = [each["offset"] for each in offsets if each.get("offset")]
    return max((int(offset.get(key) or 0) for offset in kept for key in ("lsn", "lsn_commit", "lsn_proc")), default=0)


def _in_bronze(source: Source, committed: Committed | None) -> int:
    """The highest log position among bronze's events; `epoch.anchor.kind.lsn.offset`, see spark.positions.postgresql."""
    topics = committed.topics if committed else {}
    states = [topics[topic] for table in source.tables if (topic := names.lake_topic(source, table)) in topics]
    parts = [position.split(".") for state in states for position in state.max_position.values()]
    return max((int(part, 16) for _, anchor, _, lsn, _ in parts for part in (anchor, lsn)), default=0)
