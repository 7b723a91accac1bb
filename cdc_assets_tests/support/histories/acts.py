"""Random acts of a database and its connector, played."""

from __future__ import annotations

import random

from cdc_assets_tests.support.lake.capture import Connector, Database

WRITES = ["insert", "insert", "insert", "update", "update", "delete", "move"]

ACTS = [*["write"] * 14, *["commit"] * 5, "rollback", "stream", "replay", "snapshot", "blocking", "interrupted", "incremental"]


def random_steps(choice: random.Random) -> list[tuple[str, str, int, int, int]]:
    """Steps by a seed: Hypothesis' own lists are mostly short and dull, and one Spark example costs seconds."""
    length = choice.randrange(20, 120)
    return [
        (choice.choice(ACTS), choice.choice(WRITES), choice.randrange(3), choice.randrange(6), choice.randrange(6))
        for _ in range(length)
    ]


def play(steps: list[tuple[str, str, int, int, int]], *, first_key: int) -> tuple[Database, Connector]:
    """A world: the database and what its connector sent, starting with a snapshot while transactions are open."""
    database = Database()
    connector = Connector(database)
    for position, (act, op, session, key, other) in enumerate(steps):
        if act == "write" or position < 8:
            database.write(session, op, first_key + key, first_key + other)
        elif act == "commit":
            database.commit(session)
        elif act == "rollback":
            database.rollback(session)
        if position == 8:
            connector.snapshot(rows=other) if session == 0 else None
            connector.snapshot()
        elif position > 8:
            _act(connector, act, other)
    for session in list(database.open):
        database.commit(session)
    connector.stream()
    return database, connector


def _act(connector: Connector, act: str, number: int) -> None:
    if act == "stream":
        connector.stream()
    elif act == "replay":
        connector.replay(3 * number)
    elif act in ("snapshot", "blocking"):
        connector.snapshot(blocking=act == "blocking")
    elif act == "interrupted":
        connector.snapshot(rows=number)
        connector.snapshot()
    elif act == "incremental":
        connector.incremental()
