"""Whether the new topics are whole: at one snapshot of the source, as many keys live in a topic as rows in its table.

Keys are counted by the topic's records, and rows of a snapshot that are older than a change before them are told apart. A
difference is told with what mends it.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cdc_assets.capture.connectors.setting_overrides import says_unchanged
from cdc_assets.capture.log_position import await_in_core
from cdc_assets.capture.onboarding.onboarding_state import Facts, OnboardingWork, Step
from cdc_assets.capture.onboarding.snapshot import signal_snapshot
from cdc_assets.clients.connector_events import event_reader
from cdc_assets.registry import names
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.kinds import kind_of
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.record_formats import ANCHOR_HEADER, LARGE_HEADER


@dataclass
class LiveKeys:
    """Which keys have a row: the last event of a key decides.

    A key whose events all lie before this onboarding has none: its snapshot read the whole table, so the row was deleted while
    the table was not captured, and no event says so.

    Rows of a temporary connector come between changes that are newer than they are: such a row counts where its key
    has no change (spark.bronze.batch_records does the same by position).
    """

    alive: set[bytes] = field(default_factory=set)
    gone: set[bytes] = field(default_factory=set)
    anchored: set[bytes] = field(default_factory=set)
    fresh: set[bytes] = field(default_factory=set)
    born_later: set[bytes] = field(default_factory=set)
    truncated: bool = False

    def came(self, op: str, key: bytes, *, visible: bool) -> None:
        """An event of it since this onboarding began; one that the count does not see tells whether there was a row by then."""
        if visible or (op in "ud" and key not in self.born_later):
            self.fresh.add(key)
        elif op == "c" and key not in self.fresh:
            self.born_later.add(key)

    def see(self, op: str, key: bytes, *, anchored: bool, own: bool) -> None:
        """`own`: it came into the topic since this onboarding began."""
        if anchored:
            self.anchored.add(key)
        elif op == "t":
            self.alive.clear()
            self.gone.clear()
            self.truncated = own
        elif op == "d":
            self.alive.discard(key)
            if own:
                self.gone.add(key)
        elif op in "rcu":
            self.alive.add(key)
            self.gone.discard(key)

    def live(self) -> set[bytes]:
        """The keys that have a row."""
        return self._remaining_keys() & self.fresh

    def keys_without_row(self) -> set[bytes]:
        """The keys whose row was deleted while nobody captured the table."""
        return self._remaining_keys() - self.fresh

    def _remaining_keys(self) -> set[bytes]:
        return self.alive if self.truncated else self.alive | (self.anchored - self.gone)


@dataclass
class StaleRows:
    """Keys whose last record is a snapshot's row that does not hold the change sent before it.

    PostgreSQL writes a commit into its log before others see it: between the two lies a flush, or an answer of a synchronous
    standby. A change that is streamed in that moment is not in a row that is read in it, and the row comes behind the
    change. A row that is right holds that change, or a later one, which then follows it.
    """

    said: dict[bytes, Mapping[str, Any] | bytes | None] = field(default_factory=dict)
    keys: set[bytes] = field(default_factory=set)

    def see(self, op: str, key: bytes, after: Mapping[str, Any] | None) -> None:
        """A record that came since the onboarding began, in the order of its partition."""
        if op == "t":
            self.said.clear()
            self.keys.clear()
        elif op == "r":
            stale = key in self.said and not _same(self.said[key], after)
            (self.keys.add if stale else self.keys.discard)(key)
        elif op in "cud":
            # A digest, where every column is there.
            self.said[key] = after if after is None or any(map(says_unchanged, after.values())) else _digest(after)
            self.keys.discard(key)


def _same(before: Mapping[str, Any] | bytes | None, row: Mapping[str, Any] | None) -> bool:
    if isinstance(before, bytes):
        return row is not None and before == _digest(row)
    if before is None or row is None:
        return before is row
    return all(row.get(name) == value for name, value in before.items() if not says_unchanged(value))


def _digest(row: Mapping[str, Any]) -> bytes:
    return hashlib.blake2b(repr(sorted(row.items())).encode(), digest_size=12).digest()


MOST_RECORDS = 2_000_000
_ROUNDS = 3
"""How often a snapshot is asked for again whose rows are older than changes before them."""
_DEADLINE_SECONDS = 600.0
_FLOATS, _JSON = {"real", "float4"}, {"json", "jsonb"}


def verify_topics(work: OnboardingWork) -> Facts:
    """Source and topic, by count.

    One count in a transaction of the source, a marker in its log behind it, and all events up to the marker whose transaction
    that snapshot sees: what is last for each key must leave exactly that many. Tolerance 0. And no row of the snapshot may be
    older than a change sent before it (StaleRows): else it is asked for again. Tables of more than `MOST_RECORDS` are left to
    the volumetry check of silver, which does the same in Spark.

    Raises:
        RefusalError: naming what differs and by how much.
    """
    began, again = time.monotonic(), 0
    counted = _count_rows(work)
    while stale := {name: rows for name, rows in counted.stale.items() if rows}:
        stale_rows = ", ".join(f"{rows} of {name}" for name, rows in stale.items())
        if again == _ROUNDS or work.state.route not in ("incremental", "blocking"):
            raise RefusalError(
                f"rows of the snapshot are older than changes sent before them: {stale_rows}; a transaction may be waiting for a "
                f"synchronous standby; when it is not any more: cdc onboard {work.after.name} --resume"
            )
        work.say(f"rows read while a commit was written but not visible yet: {stale_rows}; reading again")
        signal_snapshot(work, work.state.route)
        counted, again = _count_rows(work), again + 1
    if counted.wrong:
        lines = "; ".join(
            f"{name}: rows: {rows} in the source, {keys} in the topic" for name, (rows, keys) in counted.wrong.items()
        )
        raise RefusalError(
            f"{lines}; nothing is taken back: ask for the snapshot again by cdc onboard {work.after.name} "
            f"{' '.join(counted.wrong)} --again, or cdc onboard {work.after.name} --rollback"
        )
    mends = {name: phantom_mend(work.after, work.after.table(name)) for name in counted.stranded}
    return {
        "rows": counted.rows,
        "read_again": again,
        "stranded": counted.stranded,
        "mends": mends,
        "seconds": round(time.monotonic() - began, 3),
    }


def phantom_mend(source: BaseSource, table: Table) -> str:
    """What takes rows out of silver that the source has no more, and of which no delete has come."""
    captured = source.captured
    if captured is not None and kind_of(captured).tells_log:
        return f"cdc repair bronze {source.name} {names.table_name(table)} --anew"
    if captured is not None:
        return "no command reads their deletes again; write each of these keys once more at the source, and delete it there"
    return "nobody can be asked for their deletes but whoever fills the topic: have tombstones of these keys sent"


def _countable(work: OnboardingWork) -> list[Table]:
    """The tables of which each row has a key of its own, where a count has a place in the log."""
    if why := work.kind.why_uncountable(work):
        work.say(f"not counted: {why}; cdc reconcile {work.after.name} compares them")
        return []
    catalogue = work.database.tables([table.id for table in work.tables])
    return [table for table in work.tables if table.keys is None or {*table.keys} == {*catalogue[table.id].primary_key}]


@dataclass(frozen=True)
class _Counted:
    """By table: rows in the source and in the topic; rows of the snapshot that are older than a change before them; keys
    whose row was deleted while the table was not captured, where there are any."""

    rows: dict[str, dict[str, int | None]]
    stale: dict[str, int]
    stranded: dict[str, int]

    @property
    def wrong(self) -> dict[str, tuple[int | None, int | None]]:
        """Where the two counts differ."""
        pairs = {name: (row["source"], row["topic"]) for name, row in self.rows.items()}
        return {name: (source, topic) for name, (source, topic) in pairs.items() if topic not in (None, source)}


def _count_rows(work: OnboardingWork) -> _Counted:
    tables = _countable(work)
    snapshot, counts = work.database.counts([table.id for table in tables]) if tables else (None, {})
    await_in_core(
        work.after,
        database=work.database,
        core=work.core_kafka,
        core_connect=work.core_connect,
        deadline=_DEADLINE_SECONDS,
        say=work.say,
    )
    live = {table.name: _live_keys(work, table, snapshot) for table in tables}
    rows = {table.name: {"source": counts[table.id], "topic": live[table.name][0]} for table in tables}
    stale = {name: stale for name, (_, stale, _) in live.items()}
    return _Counted(rows, stale, {name: left for name, (_, _, left) in live.items() if left})


def _live_keys(work: OnboardingWork, table: Table, snapshot: Any) -> tuple[int | None, int, int]:
    """Keys whose last visible event leaves a row (None where the topic is too long to be read here), stale and stranded rows."""
    core, name = work.core_kafka, names.topic(work.after, table)
    ranges = dict(core.states([name])[name].ranges)
    if sum(end - begin for begin, end in ranges.values()) > MOST_RECORDS:
        return None, 0, 0
    keys, stale, start = LiveKeys(), StaleRows(), work.state.fact("topics", "ends").get(name, {})
    read = event_reader(work.after)
    by_place = work.state.route == "temporary" and work.kind.rows_rank_by_place
    for record in core.records(name, ranges, deadline=_DEADLINE_SECONDS):
        # Of a row that is too large for Kafka, the record says its key, and no more.
        is_large = any(header == LARGE_HEADER for header, _ in record.headers)
        event: dict[str, Any] = {"op": "u"} if is_large else read(record.value)
        if not event:
            continue
        key = hashlib.blake2b(record.key or b"", digest_size=12).digest()
        own = record.offset >= start.get(str(record.partition), 0)
        anchored = event["op"] == "r" and ((by_place and own) or any(header == ANCHOR_HEADER for header, _ in record.headers))
        # A row of a snapshot was read before the count, so whatever it shows is visible to it, or was changed since.
        visible = is_large or event["op"] == "r" or work.kind.sees(snapshot, event["source"])
        if own:
            keys.came(event["op"], key, visible=visible)
        if own and not anchored and not is_large:
            stale.see(event["op"], key, _exact(table, event.get("after")))
        if visible:
            keys.see(event["op"], key, anchored=anchored, own=own)
    return len(keys.live()), len(stale.keys), len(keys.keys_without_row())


def _exact(table: Table, row: dict[str, Any] | None) -> dict[str, Any] | None:
    """Without the columns that are sent otherwise by a snapshot than in the log, which the registry accepts.

    MySQL's server writes a FLOAT with six digits to who selects it, and JSON with blanks that the log does not have.
    """
    declared = table.declared_columns
    kinds = {name: text.split()[0].lower() for name, text in declared.items()}
    left_out = {*table.accept_inexact, *(name for name, kind in kinds.items() if kind in _FLOATS)}
    return row and {
        name: json.loads(value) if kinds.get(name) in _JSON and isinstance(value, str) else value
        for name, value in row.items()
        if name not in left_out
    }


VERIFY_TOPICS = Step(
    "verify", "as many rows in the source as keys in the topics, at one snapshot, under live writes", verify_topics
)
