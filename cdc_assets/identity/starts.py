"""Whether a connector once started behind a hole: its slot had been moved over changes that it had not read.

A worker that starts again starts its connectors by itself, and Debezium goes on in silence from a slot that somebody has
moved (ADR 40); by the next look its offset has passed the hole. Two things are left (ADR 43). Whenever the connector connects,
it notes where its slot is (`database.initial.statements`, connectors.postgresql): P. And the first event of each later
transaction says which commit was read before it (`source.sequence`): C. PostgreSQL keeps a slot where Debezium has put it, at a
commit that Connect has kept:

    nothing lost: behind P every event says C >= P         moved: the first one says C < P

and what was committed between C and P is in no topic.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cdc_assets.identity.facts import lsn_bytes, lsn_text
from cdc_assets.identity.memory import Bounds
from cdc_assets.registry.identifiers import TableId
from cdc_assets.resources.captured_events import ReadEvent, read_json_event
from cdc_assets.resources.databases.postgresql import PostgresDatabase
from cdc_assets.resources.databases.postgresql_own_tables import is_there
from cdc_assets.resources.kafka import KafkaCluster

_OPERATIONS = ("c", "u", "d", "t", "m")


@dataclass(frozen=True)
class Start:
    """The connector has connected at `at` (the server's clock), and its slot was at `slot` (bytes)."""

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
        found = int(commit), int(lsn)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return found if found[0] != found[1] else None


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

    Raises:
        KafkaError: the topics cannot be read.
    """
    places: list[tuple[int, int]] = []
    at: dict[str, Mapping[int, int]] = dict(since)
    reached = -1
    # Twice: in the second round no partition ends before an event that another one has shown in the first.
    for _ in range(2):
        reached = max((commit for commit, _ in places), default=-1)
        for topic, state in kafka.states(topics).items():
            known = at.get(topic, {})
            ranges = {
                p: (known[p] if begin <= known.get(p, -1) <= end else begin, end) for p, (begin, end) in state.ranges.items()
            }
            places += [found for record in kafka.records(topic, ranges) if (found := place(record.value, read))]
            at[topic] = state.ends
    for start in starts:
        lost_from = hole(start, places)
        if lost_from is not None:
            return loss_text(start, lost_from), ()
    return "", tuple(start for start in starts if start.slot <= reached)
