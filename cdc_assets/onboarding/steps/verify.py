"""Volumetry of the new topics: at one snapshot of the source, as many keys live in the topic as rows in the table.

One count in a transaction of the source, a marker in its log behind it, and all events up to the marker whose
transaction that snapshot sees: what is last for each key must leave exactly that many. Tolerance 0.
And no row of the snapshot may be older than a change sent before it (live_keys.StaleRows): else it is asked for again.
Tables of more than `MOST_RECORDS` are left to the volumetry check of silver, which does the same in Spark.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from typing import Any

from cdc_assets import names
from cdc_assets.errors import OnboardingError
from cdc_assets.kinds import kind_of
from cdc_assets.onboarding.state import Facts
from cdc_assets.onboarding.steps.live_keys import LiveKeys, StaleRows
from cdc_assets.onboarding.steps.snapshot import signal_snapshot
from cdc_assets.onboarding.work import OnboardingWork, Step
from cdc_assets.quantity import quantity
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.captured_events import event_reader
from cdc_assets.tables.source_catalogue import registry_columns
from cdc_assets.volumetry.log_position import await_in_core
from spark.kinds.record_marks import ANCHOR_HEADER

MOST_RECORDS = 2_000_000
_ROUNDS = 3
"""How often a snapshot is asked for again whose rows are older than changes before them."""
_DEADLINE_SECONDS = 600.0
_FLOATS, _JSON = {"real", "float4"}, {"json", "jsonb"}


def run(work: OnboardingWork) -> Facts:
    """Source and topic, by count.

    Raises:
        OnboardingError: naming what differs and by how much.
    """
    began, again = time.monotonic(), 0
    found = _count_rows(work)
    while stale := {name: rows for name, rows in found.stale.items() if rows}:
        told = ", ".join(f"{rows} of {name}" for name, rows in stale.items())
        if again == _ROUNDS or work.state.route not in ("incremental", "blocking"):
            raise OnboardingError(
                f"rows of the snapshot are older than changes sent before them: {told}; a transaction may be waiting for a "
                f"synchronous standby; when it is not any more: cdc onboard {work.after.name} --resume"
            )
        work.say(f"rows read while a commit was written but not visible yet: {told}; reading again")
        signal_snapshot(work, work.state.route)
        found, again = _count_rows(work), again + 1
    if found.wrong:
        lines = "; ".join(
            f"{name}: rows: {rows} in the source, {keys} in the topic" for name, (rows, keys) in found.wrong.items()
        )
        raise OnboardingError(
            f"{lines}; nothing is taken back: ask for the snapshot again by cdc onboard {work.after.name} "
            f"{' '.join(found.wrong)} --again, or cdc onboard {work.after.name} --rollback"
        )
    for name, rows in found.stranded.items():
        mend = phantom_mend(work.after, work.after.table(name))
        work.say(f"{name}: {quantity(rows, 'row')} of its topic deleted while it was not captured; no event tells silver: {mend}")
    return {"rows": found.rows, "read_again": again, "stranded": found.stranded, "seconds": round(time.monotonic() - began, 3)}


def phantom_mend(source: BaseSource, table: Table) -> str:
    """What takes rows out of silver that the source has no more, and of which no delete has come."""
    captured = source.captured
    if captured is not None and kind_of(captured).database is not None:
        return f"cdc repair bronze {source.name} {names.table_name(table)} --anew"
    if captured is not None:
        return "no command reads their deletes again; write each of these keys once more at the source, and delete it there"
    return "nobody can be asked for their deletes but whoever fills the topic: have tombstones of these keys sent"


def _countable(work: OnboardingWork) -> list[Table]:
    """The tables of which each row has a key of its own, where a count has a place in the log."""
    if why := work.kind.why_uncountable(work):
        work.say(f"not counted: {why}; cdc reconcile {work.after.name} compares them")
        return []
    found = work.database.tables([table.id for table in work.tables])
    return [table for table in work.tables if table.keys is None or {*table.keys} == {*found[table.id].primary_key}]


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
    found = {table.name: _live_keys(work, table, snapshot) for table in tables}
    rows = {table.name: {"source": counts[table.id], "topic": found[table.name][0]} for table in tables}
    stale = {name: stale for name, (_, stale, _) in found.items()}
    return _Counted(rows, stale, {name: left for name, (_, _, left) in found.items() if left})


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
        event = read(record.value)
        if not event:
            continue
        key = hashlib.blake2b(record.key or b"", digest_size=12).digest()
        own = record.offset >= start.get(str(record.partition), 0)
        anchored = event["op"] == "r" and ((by_place and own) or any(header == ANCHOR_HEADER for header, _ in record.headers))
        visible = _visible(work, event, snapshot)
        if own:
            keys.came(event["op"], key, visible=visible)
        if own and not anchored:
            stale.see(event["op"], key, _exact(table, event.get("after")))
        if visible:
            keys.see(event["op"], key, anchored=anchored, own=own)
    return len(keys.live()), len(stale.keys), len(keys.keys_without_row())


def _exact(table: Table, row: dict[str, Any] | None) -> dict[str, Any] | None:
    """Without the columns that are sent otherwise by a snapshot than in the log, which the registry accepts.

    MySQL's server writes a FLOAT with six digits to who selects it, and JSON with blanks that the log does not have.
    """
    declared = registry_columns(table)
    kinds = {name: text.split()[0].lower() for name, text in declared.items()}
    left_out = {*table.accept_inexact, *(name for name, kind in kinds.items() if kind in _FLOATS)}
    return row and {
        name: json.loads(value) if kinds.get(name) in _JSON and isinstance(value, str) else value
        for name, value in row.items()
        if name not in left_out
    }


def _visible(work: OnboardingWork, event: dict[str, Any], snapshot: Any) -> bool:
    """A row of a snapshot was read before the count, so whatever it shows is visible to it, or was changed since."""
    return event["op"] == "r" or work.kind.sees(snapshot, event["source"])


STEP = Step("verify", "as many rows in the source as keys in the topics, at one snapshot, under live writes", run)
