"""Which incarnation a PostgreSQL is, whether its connector once started behind a hole of its slot, and what a new epoch
does there.

A slot that was moved over changes that nobody had read is a loss that no later record tells. A new epoch drops the slot,
and notes witness and starts anew.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cdc_assets.capture.connectors.connector_restart import has_place
from cdc_assets.capture.incarnations.server_facts import (
    FIRST_HOME,
    LAST_HOME,
    Bounds,
    IncarnationDatabase,
    Known,
    Memory,
    SeenStarts,
    ServerFacts,
    lsn_bytes,
    lsn_text,
)
from cdc_assets.capture.incarnations.server_verdict import (
    Verdict,
    is_of_earlier_epoch,
    is_still,
    place_of_reading,
    server_verdict,
)
from cdc_assets.clients.connector_events import ReadEvent, event_reader, read_json_event
from cdc_assets.clients.databases.postgresql import PostgresDatabase, is_there
from cdc_assets.clients.databases.postgresql_capture import PostgresCapture, slot_of_kept_log
from cdc_assets.clients.delta_log import bronze_committed
from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.clients.table_concurrency import table_lock
from cdc_assets.registry import names
from cdc_assets.registry.databases import Database
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.kinds import expect
from cdc_assets.registry.source_declaration import Source
from spark.table.commit_metadata import Committed

_OPERATIONS = ("c", "u", "d", "t", "m")


@dataclass(frozen=True)
class Start:
    """The connector has connected at `at` (the server's clock), and its slot was at `slot` (bytes).

    A worker that starts again starts its connectors by itself, and Debezium goes on in silence from a slot that somebody has
    moved (ADR 40); by the next look its offset has passed the hole. Two things are left (ADR 43). Whenever the connector
    connects, it notes where its slot is (`database.initial.statements`, postgresql_connector): P. And the first event of each
    later transaction says which commit was read before it (`source.sequence`): C. PostgreSQL keeps a slot where Debezium has
    put it, at a commit that Connect has kept:

        nothing lost: behind P every event says C >= P         moved: the first one says C < P

    and what was committed between C and P is in no topic.
    """

    slot: int
    at: str


class StartsTable(PostgresDatabase):
    """`cdc_assets.starts_<source>`: made and emptied by us, filled by the connector."""

    def read(self, table: TableId) -> tuple[Start, ...]:
        """What has been noted, in the log's order; nothing where there is no table."""
        from psycopg import sql

        with self.connection() as connection:
            if not is_there(connection, table, self.place):
                return ()
            query = sql.SQL("SELECT slot_at::text, to_char(seen, 'YYYY-MM-DD HH24:MI:SSOF') FROM {} ORDER BY slot_at")
            rows = connection.execute(query.format(sql.Identifier(*table))).fetchall()
        return tuple(Start(lsn_bytes(at), seen) for at, seen in rows)

    def ensure(self, table: TableId) -> bool:
        """Make it; False where the role may not."""
        from psycopg import errors, sql

        columns = "(slot_at pg_lsn PRIMARY KEY, seen timestamptz NOT NULL)"
        with self.connection() as connection:
            if is_there(connection, table, self.place):
                return True
            try:
                connection.execute(sql.SQL(f"CREATE TABLE IF NOT EXISTS {{}} {columns}").format(sql.Identifier(*table)))
            except (errors.InsufficientPrivilege, errors.InvalidSchemaName, errors.ReadOnlySqlTransaction):
                return False
        return True

    def forget(self, table: TableId, starts: Iterable[Start]) -> None:
        """Delete these starts from the source's table: each has been answered."""
        from psycopg import sql

        gone = [lsn_text(start.slot) for start in starts]
        if gone:
            statement = sql.SQL("DELETE FROM {} WHERE slot_at = ANY(%s::pg_lsn[])").format(sql.Identifier(*table))
            with self.connection() as connection:
                if is_there(connection, table, self.place):
                    connection.execute(statement, [gone])


def place(value: bytes | None, read: ReadEvent = read_json_event) -> tuple[int, int] | None:
    """`(commit read before, position of the change)` of a streamed event.

    None for what says neither: rows of snapshots, the first transaction behind one, messages outside of transactions.
    """
    try:
        event = read(value)
        if event.get("op") not in _OPERATIONS or event["source"].get("snapshot") not in (None, "false", False):
            return None
        commit, lsn = json.loads(event["source"]["sequence"])
        at = int(commit), int(lsn)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return at if at[0] != at[1] else None


def hole(start: Start, places: Iterable[tuple[int, int]]) -> int | None:
    """The commit behind which something is lost."""
    return min((commit for commit, lsn in places if commit < start.slot <= lsn), default=None)


def loss_text(start: Start, lost_from: int) -> str:
    """The lost range, for people."""
    return (
        f"when its connector started at {start.at}, its replication slot was at {lsn_text(start.slot)}, and "
        f"{lsn_text(lost_from)} was the last commit that it had read: the slot had been moved, and what was committed "
        "between the two is in no topic"
    )


def find_loss(
    kafka: KafkaCluster,
    topics: Sequence[str],
    since: Bounds,
    starts: Sequence[Start],
    read: ReadEvent = read_json_event,
) -> tuple[str, tuple[Start, ...]]:
    """What is lost ("": nothing that is known), and the starts behind which an event has come that says so.

    `since`: {topic: {partition: offset}} from when nothing of these starts was in a topic.

    Raises ServiceError: the topics cannot be read.
    """
    places: list[tuple[int, int]] = []
    at: dict[str, Mapping[int, int]] = dict(since)
    reached = -1
    # Twice: in the second round no partition ends before an event that another one has shown in the first.
    for _ in range(2):
        reached = max((commit for commit, _ in places), default=-1)
        for topic, state in kafka.states(topics).items():
            read_to = at.get(topic, {})
            ranges = {
                p: (read_to[p] if begin <= read_to.get(p, -1) <= end else begin, end) for p, (begin, end) in state.ranges.items()
            }
            places += [event_place for record in kafka.records(topic, ranges) if (event_place := place(record.value, read))]
            at[topic] = state.ends
    for start in starts:
        lost_from = hole(start, places)
        if lost_from is not None:
            return loss_text(start, lost_from), ()
    return "", tuple(start for start in starts if start.slot <= reached)


StoredOffsets = Sequence[Mapping[str, Any]]


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
    chain: Chain[Source],
    offsets: StoredOffsets | None = None,
    *,
    slot: str | None = None,
    known: Known | None = None,
) -> IdentityLook:
    """Ask the server and judge; nothing is written anywhere.

    `slot`: the one that would send what is behind `offsets`; the connector's without. `known`: the server that has been read,
    where nobody here remembers it.

    Raises CdcAssetsError: the server, Connect or the lake cannot be asked.
    """
    return _look(chain)[0] if offsets is None else _judge(chain, offsets, slot, known)


def look_and_note(chain: Chain[Source]) -> IdentityLook:
    """Look, and remember what is as it was, in the server as well; another incarnation is remembered when its epoch is open.

    Nothing is written to a server of which nothing has been read yet.

    Raises CdcAssetsError: as look.
    """
    with table_lock("incarnation", chain.source.name, "server"):
        looked, memory, answered = _look(chain)
        memory.save()
        StartsTable(expect(chain.source.database, Database)).forget(names.starts_table(chain.source), answered)
        if looked.verdict.kind == "other" or not looked.captured:
            return looked
        database = IncarnationDatabase(expect(chain.source.database, Database))
        return replace(looked, witnessed=remember(database, chain.source, memory, looked.facts))


def _judge(chain: Chain[Source], offsets: StoredOffsets, slot: str | None, known: Known | None) -> IdentityLook:
    """Of offsets that a connector is to begin with."""
    database, memory = IncarnationDatabase(expect(chain.source.database, Database)), Memory.of(chain.source.name)
    events = _in_bronze(chain.source, bronze_committed(chain.bronze_path))
    facts = database.facts(slot or names.slot_name(chain.source), names.witness_table(chain.source))
    at = place_of_reading(log_position(offsets), events, memory.known or known, facts)
    judged = server_verdict(memory.known or known, facts, reached=at, captured=has_place(offsets), stored=at)
    return IdentityLook(facts, Verdict("other", memory.opening.reason) if memory.opening is not None else judged, at)


def _look(chain: Chain[Source]) -> tuple[IdentityLook, Memory, tuple[Start, ...]]:
    """What is to be remembered of it, and the starts that have been answered, besides."""
    # The memory before the server: what a look of another process counts meanwhile is more, and no restore.
    database, memory = IncarnationDatabase(expect(chain.source.database, Database)), Memory.of(chain.source.name)
    offsets = chain.platform.core_connect(chain.source.cluster).offsets(names.connector_name(chain.source))
    # Before the server is asked: its log only grows.
    events = _in_bronze(chain.source, bronze_committed(chain.bronze_path))
    facts = database.facts(names.slot_name(chain.source), names.witness_table(chain.source))
    at = place_of_reading(log_position(offsets), events, memory.known, facts)
    stored = max(at, log_position(chain.platform.core_connect(chain.source.cluster).offsets(names.connector_name(chain.source))))
    verdict = server_verdict(memory.known, facts, reached=at, captured=has_place(offsets), stored=stored)
    if memory.known is not None and is_of_earlier_epoch(memory.known, facts):
        # What was seen is of another log.
        memory.seen = SeenStarts(ends=ends_in_core(chain))
    answered: tuple[Start, ...] = ()
    if verdict.kind != "other" and offsets:
        lost, answered = _lost(chain, memory, log_position(offsets))
        verdict = Verdict("other", lost) if lost else verdict
    if memory.opening is not None:
        verdict = Verdict("other", memory.opening.reason)
    captured = has_place(offsets)
    return (
        IdentityLook(facts, verdict, at, witnessed=facts.writable or not captured, captured=captured),
        memory,
        answered,
    )


def _lost(chain: Chain[Source], memory: Memory, read: int) -> tuple[str, tuple[Start, ...]]:
    """What a start of the connector has left out since the last look ("": nothing that is known), and the starts that are
    answered; `memory.seen` is what is to be remembered.
    """
    seen, table = memory.seen, names.starts_table(chain.source)
    if seen.hole:
        return seen.hole, ()
    # Before the starts are asked for: what lies behind the ends is of those that are noted later.
    ends, starts = ends_in_core(chain), StartsTable(expect(chain.source.database, Database))
    noted = starts.read(table)
    # A slot at what had been read by the last look has lost nothing, whenever it was noted.
    passed = tuple(start for start in noted if start.slot <= seen.stored)
    open_ = tuple(start for start in noted if start.slot > seen.stored)
    if open_:
        core = chain.platform.core_kafka(chain.source.cluster)
        seen.hole, done = find_loss(core, _topics(chain.source), seen.ends, open_, event_reader(chain.source))
        passed, open_ = passed + done, tuple(start for start in open_ if start not in done)
    if not open_:
        seen.ends, seen.stored = ends, max(seen.stored, read)
    return seen.hole, passed


def ends_in_core(chain: Chain[Source]) -> Bounds:
    """Where the topics of its connector end."""
    return {
        topic: dict(state.ends)
        for topic, state in chain.platform.core_kafka(chain.source.cluster).states(_topics(chain.source)).items()
    }


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
    memory.known = Known(facts.system, facts.timeline, now, home, looks or 0, epochs)
    memory.save()
    return looks is not None


def log_end(source: Source) -> str:
    """Where the log ends that a home has read, as positions have it (spark.events.postgresql_positions); empty where the server
    may be
    another one, or nothing is remembered of it.
    Raises DatabaseError: the server cannot be asked."""
    from spark.events.positions import NUMBER_WIDTH

    remembered = Memory.of(source.name).known
    if remembered is None or not remembered.looks:
        return ""
    facts = IncarnationDatabase(expect(source.database, Database)).facts(names.slot_name(source), names.witness_table(source))
    return f"{facts.wal:0{NUMBER_WIDTH}x}" if is_still(remembered, facts) else ""


def postgresql_verdict(chain: Chain[Source], offsets: StoredOffsets | None = None, known: Known | None = None) -> Verdict:
    """Whether its connector may go on from where it is, which is noted, or from these offsets; `known` as in look."""
    looked = look_and_note(chain) if offsets is None else look(chain, offsets, known=known)
    return looked.verdict


def offsets_at_slot(source: Source, offsets: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Offsets of a backup, brought to where the slot is: Connect keeps an offset before the slot moves there (ADR 40), so all
    before it is in the topics. Those without a place, and those that are ahead of the slot, stay as they are.
    """
    slot = IncarnationDatabase(expect(source.database, Database)).facts(names.slot_name(source), names.witness_table(source)).slot
    at = lsn_bytes(str(slot["confirmed_flush_lsn"])) if slot and slot.get("confirmed_flush_lsn") else 0
    moved = offsets_at(offsets, at)
    return [dict(entry) if log_position([entry]) >= at else there for entry, there in zip(offsets, moved, strict=True)]


_OF_LAST_EVENT = ("txId", "messageType", "lsn_proc", "lsn_commit")


def offsets_at(offsets: StoredOffsets, at: int) -> list[dict[str, Any]]:
    """Offsets as they would be if all before this place had been read, and nothing else; those without a place stay."""
    moved = [dict(entry) for entry in offsets]
    for entry in moved:
        if has_place([entry]):
            # What its last event was is not known, only that the log was read up to there.
            kept = {key: value for key, value in entry["offset"].items() if key not in _OF_LAST_EVENT}
            entry["offset"] = {**kept, "lsn": at, "lsn_proc": at, "lsn_commit": at}
    return moved


def log_position(offsets: Sequence[Mapping[str, Any]]) -> int:
    """The highest log position in a connector's offsets."""
    kept = [entry["offset"] for entry in offsets if entry.get("offset")]
    return max((int(offset.get(key) or 0) for offset in kept for key in ("lsn", "lsn_commit", "lsn_proc")), default=0)


def _in_bronze(source: Source, committed: Committed | None) -> int:
    """The highest log position among bronze's events; `epoch.anchor.kind.lsn.offset`, see spark.events.postgresql_positions."""
    topics = committed.topics if committed else {}
    states = [topics[topic] for table in source.tables if (topic := names.lake_topic(source, table)) in topics]
    parts = [position.split(".") for state in states for position in state.max_position.values()]
    return max((int(number, 16) for _, anchor, _, lsn, _ in parts for number in (anchor, lsn)), default=0)


_SLOT_DEADLINE_SECONDS = 60.0


class PostgresEpoch:
    """A new epoch at a PostgreSQL server (server_verdict.ServerEpoch)."""

    def __init__(self, source: Source) -> None:
        self._source, self._database = source, expect(source.database, Database)

    def forget(self) -> None:
        """The slot is gone, and so is the log that was kept for a backup (`backup.keep_log`)."""
        drop_idle_slot(self._source)
        PostgresCapture(self._database).drop_slot(slot_of_kept_log(names.slot_name(self._source)))

    def facts(self) -> ServerFacts:
        """Identifier, timeline, end of the log, slot and witness."""
        return self._incarnation.facts(names.slot_name(self._source), names.witness_table(self._source))

    def adopt(self, platform: Platform, memory: Memory, facts: ServerFacts) -> None:
        """What the connector has noted until now is answered by the reading."""
        starts, table = StartsTable(self._database), names.starts_table(self._source)
        memory.seen = SeenStarts(ends=ends_in_core(Chain(platform, self._source)))
        starts.forget(table, starts.read(table))
        remember(self._incarnation, self._source, memory, facts, opens_epoch=True)

    @property
    def _incarnation(self) -> IncarnationDatabase:
        return IncarnationDatabase(self._database)


def drop_idle_slot(source: Source) -> None:
    """Drop the connector's slot, once nobody reads from it. Raises DatabaseError: somebody still does, after a minute."""
    database, until = PostgresCapture(expect(source.database, Database)), time.monotonic() + _SLOT_DEADLINE_SECONDS
    while True:
        try:
            database.drop_slot(names.slot_name(source))
            return
        except DatabaseError:
            # The walsender of a stopped task ends a moment later.
            if time.monotonic() > until:
                raise
            time.sleep(0.5)
