"""Decides what a tick requests: pure logic over what is in the topics, in bronze, and in runs under way.

Nothing here is remembered for correctness: the ranges are worked out again in the run, from the Delta log. A lost
cursor, a restart, a failed run or a day without the sensor therefore loses nothing and repeats nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cdc_assets.quantity import quantity
from cdc_assets.registry.source_settings import Batching


@dataclass(frozen=True)
class TableNews:
    """One table at a tick. `waiting` counts offsets beyond bronze (an upper bound of records).

    `backup_behind`: the last backup is old enough for another, and bronze has records that it lacks.
    """

    table: str
    waiting: int
    silver_behind: bool = False
    backup_behind: bool = False

    @property
    def has_news(self) -> bool:
        """Of its topic or of bronze: what a run of bronze and silver would carry."""
        return self.waiting > 0 or self.silver_behind

    @property
    def wants_a_run(self) -> bool:
        """A run of bronze and silver, or one of its backup."""
        return self.has_news or self.backup_behind


@dataclass(frozen=True)
class Waiting:
    """Since when (epoch seconds) each table has had news: the sensor's cursor."""

    since: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """One run: its tables, and why."""

    tables: tuple[str, ...]
    reason: str


def decide(
    news: Sequence[TableNews],
    *,
    busy: frozenset[str],
    waiting: Waiting,
    now: float,
    batching: Batching,
    alone: frozenset[str] = frozenset(),
) -> tuple[tuple[Request, ...], Waiting]:
    """The runs of bronze and silver to request now, and the cursor to keep.

    A table in a run under way is left alone. A table with more than the batching's `max_records` waiting gets a run of its
    own, so that it does not hold the others up, and so does one of `alone`, whose last run failed: its step would end the
    others' run. All other tables with news share one run.
    """
    since = {n.table: waiting.since.get(n.table, now) for n in news if n.has_news}
    free = [n for n in news if n.table not in busy and n.has_news]
    failed = [n for n in free if n.table in alone]
    most, longest = batching.max_records, batching.max_delay.total_seconds()
    backlog = [n for n in free if n.waiting > most and n not in failed]
    small = [n for n in free if n.waiting <= most and n not in failed]
    due = any(n.waiting >= batching.min_records or n.silver_behind or now - since[n.table] >= longest for n in small)
    requests = [Request((n.table,), f"backlog of up to {quantity(n.waiting, 'record')}") for n in backlog]
    requests += [Request((n.table,), "once more after a failure") for n in failed]
    if due:
        total = sum(n.waiting for n in small)
        requests.append(Request(tuple(n.table for n in small), f"up to {quantity(total, 'new record')}"))
    asked = {table for request in requests for table in request.tables}
    return tuple(requests), Waiting({table: at for table, at in since.items() if table not in asked})


def decide_backups(
    news: Sequence[TableNews], *, busy: frozenset[str], alone: frozenset[str] = frozenset()
) -> tuple[Request, ...]:
    """The runs of backups to request now: one for all tables, and one for each of `alone`, whose last one failed.

    A backup has a run of its own: what is on its way to silver does not wait for it.
    """
    behind = [n.table for n in news if n.backup_behind and n.table not in busy]
    requests = [Request((table,), "once more after a failure") for table in behind if table in alone]
    if together := tuple(table for table in behind if table not in alone):
        requests.append(Request(together, "bronze has records that the backup lacks"))
    return tuple(requests)
