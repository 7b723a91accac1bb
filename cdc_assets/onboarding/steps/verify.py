"""Volumetry of the new topics: at one snapshot of the source, as many keys live in the topic as rows in the table.

One count in a transaction of the source, a marker in its log behind it, and all events up to the marker whose
transaction that snapshot sees: what is last for each key must leave exactly that many. Tolerance 0.
Tables of more than `MOST_RECORDS` are left to the volumetry check of silver, which does the same in Spark.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, field
from typing import Any

from cdc_assets import names
from cdc_assets.errors import OnboardingError
from cdc_assets.onboarding.state import Facts
from cdc_assets.onboarding.work import Step, Work
from cdc_assets.registry.models import Table
from cdc_assets.resources.databases.postgresql import Snapshot
from cdc_assets.volumetry.log_position import await_in_core
from spark.specs import ANCHOR_HEADER

MOST_RECORDS = 2_000_000
_DEADLINE_SECONDS = 600.0


def run(work: Work) -> Facts:
    """Source and topic, by count.

    Raises:
        OnboardingError: naming what differs and by how much.
    """
    began = time.monotonic()
    tables = [table for table in work.tables if table.keys is None]
    snapshot, counts = work.database.counts([table.id for table in tables])
    await_in_core(
        work.after,
        database=work.database,
        core=work.platform.core_kafka(),
        core_connect=work.platform.core_connect(),
        deadline=_DEADLINE_SECONDS,
    )
    found = {table.name: _live_keys(work, table, snapshot) for table in tables}
    wrong = {t.name: (counts[t.id], found[t.name]) for t in tables if found[t.name] not in (None, counts[t.id])}
    if wrong:
        lines = "; ".join(f"{name}: {rows} rows in the source, {keys} in the topic" for name, (rows, keys) in wrong.items())
        raise OnboardingError(
            f"{lines}; nothing is taken back: ask for the snapshot again by cdc onboard {work.after.name} "
            f"{' '.join(wrong)} --again, or cdc onboard {work.after.name} --rollback"
        )
    rows = {table.name: {"source": counts[table.id], "topic": found[table.name]} for table in tables}
    return {"rows": rows, "seconds": round(time.monotonic() - began, 3)}


def _live_keys(work: Work, table: Table, snapshot: Snapshot) -> int | None:
    """Keys whose last visible event leaves a row; None where the topic is too long to be read here."""
    core, name = work.platform.core_kafka(), names.topic(work.after, table)
    ranges = dict(core.states([name])[name].ranges)
    if sum(end - begin for begin, end in ranges.values()) > MOST_RECORDS:
        return None
    keys, start = _Keys(), work.state.fact("topics", "ends").get(name, {})
    for record in core.records(name, ranges, deadline=_DEADLINE_SECONDS):
        event = json.loads(record.value or b"null")
        event = event and event.get("payload", event)
        if event and _visible(event, snapshot):
            anchored = event["op"] == "r" and any(header == ANCHOR_HEADER for header, _ in record.headers)
            own = record.offset >= start.get(str(record.partition), 0)
            keys.see(event["op"], hashlib.blake2b(record.key or b"", digest_size=12).digest(), anchored=anchored, own=own)
    return len(keys.live())


@dataclass
class _Keys:
    """Which keys have a row: the last event of a key decides.

    Rows of a temporary connector come between changes that are newer than they are: such a row counts where its key
    has no change (spark.bronze_drafts does the same by position).
    """

    alive: set[bytes] = field(default_factory=set)
    gone: set[bytes] = field(default_factory=set)
    anchored: set[bytes] = field(default_factory=set)
    truncated: bool = False

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
        return self.alive if self.truncated else self.alive | (self.anchored - self.gone)


def _visible(event: dict[str, Any], snapshot: Snapshot) -> bool:
    """A row of a snapshot was read before the count, so whatever it shows is visible to it, or was changed since."""
    return event["op"] == "r" or snapshot.sees(int(event["source"]["txId"]))


STEP = Step("verify", "as many rows in the source as keys in the topics, at one snapshot, under live writes", run)
