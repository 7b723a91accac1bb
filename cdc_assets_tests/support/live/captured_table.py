"""One table with a connector of its own, to be killed or robbed of its slot: what the table, its topic and its slot hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from cdc_assets_tests.support.live.clusters import until
from cdc_assets_tests.support.live.live_source import LiveSource


@contextmanager
def captured_table(live: LiveSource, name: str) -> Iterator[LiveSource]:
    """`public.<name>` (id, v) and a source of that name, whose connector is not started yet; both and the slot go at the end."""
    own = replace(live, name=name)
    run(own, f"CREATE TABLE public.{name} (id int PRIMARY KEY, v text)")
    yield own
    own.connect.delete(f"{name}-capture")
    drop = f"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = 'cdc_{name}'"
    until(lambda: not slot(own, "active"))
    run(own, drop, f"DROP TABLE public.{name}")


def run(own: LiveSource, *statements: str) -> None:
    with own.connection() as connection:
        for statement in statements:
            connection.execute(statement.encode())


def slot(own: LiveSource, column: str) -> str | None:
    """A column of `pg_replication_slots`; None where it is null or false, or there is no slot."""
    with own.connection() as connection:
        query = f"SELECT {column}::text FROM pg_replication_slots WHERE slot_name = 'cdc_{own.name}'"
        row = connection.execute(query.encode()).fetchone()
    return None if row is None or row[0] in (None, "false") else str(row[0])


def start_streaming(own: LiveSource, **overrides: str) -> None:
    """It streams: before its snapshot has ended there would be no slot to lose."""
    own.capture([f"public.{own.name}"], **overrides)
    # A slot that is being made is active as well, and a mark that is written before it is made is in no event.
    until(lambda: slot(own, "confirmed_flush_lsn") is not None)
    own.delivered()


def kill_worker(own: LiveSource) -> None:
    """kill -9 of the Connect worker, which starts again."""
    worker = own.parts["core-connect"]
    worker.kill()
    worker.start()
    own.connect.wait_running(f"{own.name}-capture")


def in_topic(own: LiveSource) -> dict[int, str]:
    """What a reader who folds the topic by its order has of each key."""
    found: dict[int, str] = {}
    for record in own.delivered()[f"{own.name}.public.{own.name}"][0]:
        value = json.loads(record.value) if record.value else None
        if value is None:
            continue
        if value["op"] == "d":
            found.pop(json.loads(record.key)["id"], None)
        else:
            found[value["after"]["id"]] = value["after"]["v"]
    return found


def in_table(own: LiveSource) -> dict[int, str]:
    with own.connection() as connection:
        return dict(connection.execute(f"SELECT id, v FROM public.{own.name}".encode()).fetchall())
