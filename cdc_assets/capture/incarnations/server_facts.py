"""What tells one incarnation of a server from another, now and at the last look: identifier, timeline and its history, end
of the log, slot, and a witness of rows of ours.

Positions of the log alone cannot tell: once a restored server has written more than was lost, its log is as long as before.
What was seen is kept in `$CDC_HOME/incarnations/<source>.json`, with an epoch that is being opened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from cdc_assets.clients.databases.postgresql import PostgresDatabase, is_there
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_state import SourceState
from spark.table.identifiers import double_quote

Bounds = dict[str, dict[int, int]]


@dataclass(frozen=True)
class Known:
    """The server that was read: its identifier and timeline, the witness, and when that was (UTC).

    `home` is this home's number in the witness (facts.WitnessRows), `looks` what its row counts at least, `epochs` that of row 0;
    no `looks`: it has no row.
    """

    system: str
    timeline: int
    at: str
    home: int = 0
    looks: int = 0
    epochs: int = 0


@dataclass
class Opening:
    """A new epoch on its way; `done` are its steps."""

    reason: str
    done: list[str] = field(default_factory=list)
    bounds: Bounds = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)


@dataclass
class SeenStarts:
    """What the last look has seen of the connector's starts (postgresql_incarnation).

    `stored`: the highest position that had been read; `ends`: where the core's topics ended when no start was open; `hole`:
    what is lost, until an epoch is opened.
    """

    stored: int = 0
    ends: Bounds = field(default_factory=dict)
    hole: str = ""


_SECTION = "incarnation"


@dataclass
class Memory:
    """What this machine remembers of a source's server: {"known": {…} | null, "opening": {…} | null, "seen": {…}}.

    `looks` is written behind the witness's row: a crash between the two leaves a row that counts more, which is no restore.
    `bounds` are the ends of the old epoch, once they are known: {topic: {partition: offset}}, `epochs` the new epoch of each
    topic.
    """

    source: str
    known: Known | None = None
    opening: Opening | None = None
    seen: SeenStarts = field(default_factory=SeenStarts)

    @classmethod
    def of(cls, source: str) -> Memory:
        """Read, or empty where there is none."""
        data = SourceState(source, _SECTION).read()
        if data is None:
            return cls(source)
        remembered, opening, seen = data["known"], data["opening"], data["seen"]
        return cls(
            source,
            Known(**remembered) if remembered else None,
            Opening(**{**opening, "bounds": _with_numbers(opening["bounds"])}) if opening else None,
            SeenStarts(**{**seen, "ends": _with_numbers(seen["ends"])}),
        )

    def save(self) -> None:
        """Replace what is remembered; it is whole, old or new, after a crash at any moment."""
        data = {
            "known": asdict(self.known) if self.known else None,
            "opening": asdict(self.opening) if self.opening else None,
            "seen": asdict(self.seen),
        }
        SourceState(self.source, _SECTION).write(data)


def _with_numbers(bounds: dict[str, dict[str, Any]]) -> Bounds:
    return {topic: {int(p): end for p, end in ends.items()} for topic, ends in bounds.items()}


_SLOT = """
SELECT to_jsonb(s) FROM pg_replication_slots s WHERE slot_name = %s AND slot_type = 'logical'
"""


# For a role that may not replicate, or behind a pooler: without the timelines before this one.
_BY_SQL = """
SELECT (SELECT system_identifier::text FROM pg_control_system()),
  CASE WHEN pg_is_in_recovery() THEN (SELECT timeline_id FROM pg_control_checkpoint())
    ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int END,
  pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_flush_lsn() END, '0/0')::bigint
"""


# Whether a look may write the witness: into its table, or by making it.
_WRITABLE = """
SELECT NOT pg_is_in_recovery() AND CASE
  WHEN to_regclass(%(table)s) IS NOT NULL
    THEN has_table_privilege(to_regclass(%(table)s), 'INSERT') AND has_table_privilege(to_regclass(%(table)s), 'UPDATE')
  WHEN to_regnamespace(%(schema)s) IS NOT NULL THEN has_schema_privilege(to_regnamespace(%(schema)s)::oid, 'CREATE')
  ELSE has_database_privilege(current_database(), 'CREATE') END
"""
_EPOCHS = 0
FIRST_HOME, LAST_HOME = 1, 2**31 - 1
"""Numbers of homes: what an `int` of PostgreSQL has left."""


@dataclass(frozen=True)
class WitnessRows:
    """The rows of `cdc_assets.witness_<source>`, `(id int, token text)`, which several homes share.

    `looks`: by the number of a home, how often it has looked. `epochs` (row 0): how often a home has taken another server for
    the one that is read.
    """

    looks: Mapping[int, int] = field(default_factory=dict)
    epochs: int = 0


@dataclass(frozen=True)
class ServerFacts:
    """A server as it is now. Log positions are numbers of bytes.

    `wal` is the end of its log, `forks` where each earlier timeline was left, `slot` the row of pg_replication_slots (None: there
    is none). `witness` is what the looks have written; None: there is no table; `writable`: a look may write it.
    """

    system: str
    timeline: int
    wal: int
    forks: Mapping[int, int] = field(default_factory=dict)
    slot: Mapping[str, Any] | None = None
    witness: WitnessRows | None = None
    writable: bool = True


class IncarnationDatabase(PostgresDatabase):
    """A source's database, asked who it is.

    The witness is rows of ours that count the looks, so that a server restored to a moment before counts fewer.
    https://www.postgresql.org/docs/18/protocol-replication.html (IDENTIFY_SYSTEM, TIMELINE_HISTORY: for any role that may
    replicate)
    """

    def facts(self, slot: str, witness: TableId) -> ServerFacts:
        """All of them; nothing is changed.

        Raises:
            DatabaseError: the server cannot be asked, or the witness is somebody else's.
        """
        with self.connection() as connection:
            try:
                system, timeline, wal, forks = self._identify()
            except DatabaseError:
                (system, timeline, wal), forks = connection.execute(_BY_SQL).fetchone(), {}
            row = connection.execute(_SLOT, [slot]).fetchone()
            names_of_witness = {"table": double_quote(*witness), "schema": double_quote(witness.schema)}
            writable = connection.execute(_WRITABLE, names_of_witness).fetchone()[0]
            counted = _witness(connection, witness) if is_there(connection, witness, self.place) else None
        return ServerFacts(system, timeline, wal, forks, row[0] if row else None, counted, writable=writable)

    def count_look(self, table: TableId, home: int, looks: int) -> int | None:
        """One look more of this home, which remembers so many; how many there are now. None: the role may not make the table.

        What is counted only rises: of two copies of a home neither sees fewer than it has counted.
        """
        return self._count(table, home, looks)

    def count_epoch(self, table: TableId, epochs: int) -> int | None:
        """One epoch more, as `count_look`: every home that looks next takes this server for the one that is read."""
        return self._count(table, _EPOCHS, epochs)

    def _count(self, table: TableId, row: int, known: int) -> int | None:
        from psycopg import errors, sql

        name = sql.Identifier(*table)
        with self.connection() as connection:
            try:
                if not is_there(connection, table, self.place):
                    _create(connection, table)
                    is_there(connection, table, self.place)
                statement = sql.SQL(
                    "INSERT INTO {0} VALUES (%s, %s) ON CONFLICT (id) DO UPDATE "
                    "SET token = 1 + greatest({0}.token::bigint, excluded.token::bigint - 1) RETURNING token::bigint"
                )
                counter = connection.execute(statement.format(name), [row, str(known + 1)]).fetchone()
            except errors.InsufficientPrivilege:
                return None
        return int(counter[0])

    def _identify(self) -> tuple[str, int, int, dict[int, int]]:
        import psycopg
        from psycopg import pq

        conninfo = psycopg.conninfo.make_conninfo(**self._login(), replication="database")
        # psycopg's own connection speaks the extended protocol, which a walsender refuses.
        raw = pq.PGconn.connect(conninfo.encode())
        try:
            if raw.status != pq.ConnStatus.OK:
                raise DatabaseError(f"PostgreSQL at {self.place}: {_first(raw.error_message)}")

            def ask(command: str) -> list[bytes | None]:
                answer = raw.exec_(command.encode())
                if answer.status != pq.ExecStatus.TUPLES_OK:
                    raise DatabaseError(f"PostgreSQL at {self.place}: {command}: {_first(answer.error_message)}")
                return [answer.get_value(0, i) for i in range(answer.nfields)]

            system, timeline, wal = (bytes(value or b"").decode() for value in ask("IDENTIFY_SYSTEM")[:3])
            history = ask(f"TIMELINE_HISTORY {timeline}")[1] if int(timeline) > 1 else b""
            return system, int(timeline), lsn_bytes(wal), forks(bytes(history or b"").decode())
        finally:
            raw.finish()


def _create(connection: Any, table: TableId) -> None:
    from psycopg import sql

    # CREATE SCHEMA asks for the right on the database, also where the schema is there.
    if connection.execute("SELECT to_regnamespace(%s)", [double_quote(table.schema)]).fetchone()[0] is None:
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(table.schema)))
    columns = "(id int PRIMARY KEY, token text NOT NULL)"
    connection.execute(sql.SQL(f"CREATE TABLE IF NOT EXISTS {{}} {columns}").format(sql.Identifier(*table)))


def _witness(connection: Any, table: TableId) -> WitnessRows:
    from psycopg import sql

    rows = dict(connection.execute(sql.SQL("SELECT id, token FROM {}").format(sql.Identifier(*table))).fetchall())
    looks = {home: int(count) for home, count in rows.items() if home >= FIRST_HOME}
    return WitnessRows(looks, int(rows.get(_EPOCHS, 0)))


def forks(history: str) -> dict[int, int]:
    """From a timeline's history file: per earlier timeline the position at which it was left."""
    lines = re.findall(r"^\s*(\d+)\s+([0-9A-Fa-f]+/[0-9A-Fa-f]+)", history, re.MULTILINE)
    return {int(timeline): lsn_bytes(lsn) for timeline, lsn in lines}


def lsn_bytes(text: str) -> int:
    """`16/B374D848` as a number."""
    high, low = text.split("/")
    return (int(high, 16) << 32) + int(low, 16)


def lsn_text(position: int) -> str:
    """As PostgreSQL writes it."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def _first(message: bytes) -> str:
    return (message.decode(errors="replace").strip().splitlines() or ["no answer"])[0]
