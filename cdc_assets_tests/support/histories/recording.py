"""A recording: the records that Debezium sent for some tables, and the rows that PostgreSQL held in the end."""

from __future__ import annotations

import gzip
import json
import random
import time
from bisect import bisect_right
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from psycopg import sql

from cdc_assets.capture.source_columns import source_columns
from cdc_assets.clients.databases.postgresql import PostgresDatabase
from cdc_assets.registry.field_types import parse_table
from cdc_assets.registry.table_declaration import Table
from cdc_assets_tests.support.histories.play import SESSIONS, Player, kind_of
from cdc_assets_tests.support.histories.snapshots import SIGNALS, restart, signal
from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.live.live_source import LiveSource
from spark.specs import Column

PARTS, WORLDS = 8, 100
"""How many stretches of statements there are for so many histories of a table."""
Log = dict[int, list[Record]]


@dataclass(frozen=True)
class Recorded:
    """One table: its log by partition, its rows at the end, the worlds in it and what was done to it.

    `definitions` are its columns as the catalogue showed them, each from the time in `since` on (milliseconds, of the
    source's clock; the first from 0).
    """

    table: str
    log: Log
    rows: list[list[Any]]
    worlds: int
    acts: dict[str, int]
    definitions: Sequence[tuple[Column, ...]]
    since: Sequence[int]

    def definition_of(self, record: Record) -> int:
        """The number of the newest definition that the record can be of: by its commit, or where a snapshot read it."""
        if not record.value:
            return 0
        event = json.loads(record.value)
        at = event["ts_ms"] if event["op"] == "r" else event["source"]["ts_ms"]
        return bisect_right(self.since, at) - 1


def record(live: LiveSource, *, kinds: Sequence[str], worlds: int, steps: int, seed: int) -> list[Recorded]:
    """Play a table of each of `kinds`, `worlds` histories with `steps` steps in each, and keep what the connector sent."""
    choice = random.Random(seed)
    with live.connection() as connection, ExitStack() as stack:
        connection.execute("SET TIME ZONE 'UTC'")
        connection.execute(f"CREATE TABLE IF NOT EXISTS {SIGNALS} (id text PRIMARY KEY, type text, data text)")
        names = [f"{kind}_{i}" for i, kind in enumerate(kinds)]
        players = [player_of(live, connection, stack, name, worlds, random.Random(choice.random())) for name in names]
        _play(players, worlds * steps // 4)
        capture(live, choice, players)
        parts = PARTS * -(-worlds // WORLDS)
        for part in range(parts):
            _play(players, worlds * steps * 3 // (4 * parts))
            _part(live, connection, choice, players, part, mark=f"{seed}-{part}")
        _play(players, worlds)
        for player in players:
            player.finish()
        return recorded(live, connection, players)


def recorded(live: LiveSource, connection: Any, players: Sequence[Player]) -> list[Recorded]:
    """All that the connector has sent of them, and what their tables hold; no transaction may be open."""
    delivered = live.delivered(seconds=240)
    return [_recorded(connection, player, delivered.get(f"{live.name}.public.{player.name}", {})) for player in players]


def player_of(live: LiveSource, connection: Any, stack: ExitStack, name: str, worlds: int, choice: random.Random) -> Player:
    """A new table and its sessions, which end with `stack`."""
    _create(connection, name)
    sessions = [stack.enter_context(live.connection(autocommit=False)) for _ in range(SESSIONS)]
    for session in sessions:
        session.execute("SET lock_timeout = '5ms'")
        session.commit()
    return Player(name, kind_of(name), worlds, choice, sessions, partial(catalogue, live, name))


def _create(connection: Any, name: str) -> None:
    kind = kind_of(name)
    connection.execute(sql.SQL("CREATE TABLE {} " + kind.ddl).format(sql.Identifier(name)))
    for column in kind.large:
        external = sql.SQL("ALTER TABLE {} ALTER COLUMN {} SET STORAGE EXTERNAL")
        connection.execute(external.format(sql.Identifier(name), sql.Identifier(column)))
    if kind.full:
        connection.execute(sql.SQL("ALTER TABLE {} REPLICA IDENTITY FULL").format(sql.Identifier(name)))


def capture(live: LiveSource, choice: random.Random, players: list[Player]) -> None:
    """The connector's first snapshot, while transactions come and go."""
    # The slot waits for transactions that are open when it is made, and the snapshot then meets others.
    for player in players:
        player.finish()
    with ThreadPoolExecutor(1) as pool:
        started = pool.submit(
            live.capture,
            [f"public.{player.name}" for player in players] + [SIGNALS],
            signal__data__collection=SIGNALS,
            topic__creation__default__partitions="3",
            incremental__snapshot__chunk__size="20",
        )
        while not started.done():
            _play(players, 1)
            if choice.random() < 0.05:
                for player in players:
                    player.finish()
            time.sleep(0.02)
        started.result()


def _part(live: LiveSource, connection: Any, choice: random.Random, players: list[Player], part: int, *, mark: str) -> None:
    """What comes between two stretches of statements: DDL, TRUNCATE, snapshots in the middle of the stream."""
    chosen = choice.randrange(len(players))
    for number, player in enumerate(players):
        if choice.random() < 0.4 or number == chosen:
            player.alter()
    if part % PARTS == 4:
        restart(live, connection, players)
        return
    if part % 2 == 0:
        signal(connection, choice.choice(players), mark, kind="blocking" if part % PARTS == 2 else "incremental")
    if part % PARTS in (2, 5):
        for player in players:
            if choice.random() < 0.5:
                player.truncate()
    for player in players:
        if player.unknown:
            signal(connection, player, f"{mark}-{player.name}", kind=choice.choice(["incremental", "blocking"]))


def catalogue(live: LiveSource, table: str) -> tuple[Column, ...]:
    """The table's columns, as the silver asset is told of them."""
    source = live.source([f"public.{table}"])
    with live.settings():
        (found,) = PostgresDatabase(source.database).tables([parse_table(f"public.{table}")]).values()
    return source_columns(source, Table(name=f"public.{table}"), found)


def _play(players: list[Player], steps: int) -> None:
    for _ in range(steps):
        for player in players:
            player.step()


def _recorded(connection: Any, player: Player, log: Log) -> Recorded:
    names = [c.name for c in player.definition.now]
    shown = ", ".join(f'"{n}"::text' if n not in player.kind.large else f'md5("{n}"::text)' for n in names)
    rows = connection.execute(f'SELECT {shown} FROM "{player.name}" ORDER BY id').fetchall()
    definition, kept = player.definition, [list(row) for row in rows]
    return Recorded(player.name, log, kept, player.worlds, player.acts, definition.columns, definition.since)


def save(path: Path, recorded: list[Recorded]) -> None:
    """As gzipped JSON."""
    data = [
        {
            "table": r.table,
            "rows": r.rows,
            "worlds": r.worlds,
            "acts": r.acts,
            "definitions": [[asdict(c) for c in columns] for columns in r.definitions],
            "since": r.since,
            "log": {str(p): [[x.offset, x.key, x.value, dict(x.headers)] for x in records] for p, records in r.log.items()},
        }
        for r in recorded
    ]
    path.write_bytes(gzip.compress(json.dumps(data).encode(), mtime=0))


def load(path: Path) -> list[Recorded]:
    """What `save` wrote."""
    data = json.loads(gzip.decompress(path.read_bytes()))
    return [
        Recorded(
            table=d["table"],
            log={int(p): [Record(*x) for x in records] for p, records in d["log"].items()},
            rows=d["rows"],
            worlds=d["worlds"],
            acts=d["acts"],
            definitions=[tuple(Column.from_dict(c) for c in columns) for columns in d["definitions"]],
            since=d["since"],
        )
        for d in data
    ]
