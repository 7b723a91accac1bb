"""What kills a capture in the middle of something: afterwards silver is the table, or it is red.

Oracle: the table itself. So must be what a reader has who folds the topic by its order, and what our jobs make of it. The
numbers of the faults are those of docs/reference/faults.md.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from cdc_assets.errors import IncarnationError
from cdc_assets.identity.look import refuse_other
from cdc_assets.resources.platform import Platform
from cdc_assets_tests.spark.conftest import remote as remote
from cdc_assets_tests.spark.conftest import session as session
from cdc_assets_tests.support.lake.lake import Lake as Tables
from cdc_assets_tests.support.lake.lake import values
from cdc_assets_tests.support.live.clusters import until
from cdc_assets_tests.support.live.live_source import LiveSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all


@pytest.fixture
def captured(live: LiveSource, request: pytest.FixtureRequest) -> Iterator[LiveSource]:
    """A connector of its own on a table `public.<name>`, which is not started yet."""
    name = request.node.name.removeprefix("test_")[:40]
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
    with own.connection() as connection:
        query = f"SELECT {column}::text FROM pg_replication_slots WHERE slot_name = 'cdc_{own.name}'"
        row = connection.execute(query.encode()).fetchone()
    return None if row is None or row[0] in (None, "false") else str(row[0])


def started(own: LiveSource, **overrides: str) -> None:
    """It streams: before its snapshot has ended there would be no slot to lose."""
    own.capture([f"public.{own.name}"], **overrides)
    until(lambda: slot(own, "active") is not None)
    time.sleep(1)
    own.delivered()


def killed(own: LiveSource) -> None:
    """kill -9 of the Connect worker, which starts again."""
    worker = own.parts["core-connect"]
    worker.kill()
    worker.start()
    own.connect.wait_running(f"{own.name}-capture")


def kill_midway(own: LiveSource, records: int) -> None:
    """kill -9 of the worker when some of so many new records are in the topic, and not all; then it starts again.

    Those of a transaction of Kafka's that is not committed are counted, too.
    """
    worker, place = own.parts["core-connect"], TopicPartition(f"{own.name}.public.{own.name}", 0)
    consumer = Consumer({"bootstrap.servers": own.bootstrap, "group.id": own.name})

    def reached() -> int:
        try:
            return consumer.get_watermark_offsets(place, timeout=10)[1]
        except KafkaException:  # there is no topic yet
            return 0

    before, deadline = reached(), time.monotonic() + 120
    while reached() == before:  # all of them take a second or two
        assert time.monotonic() < deadline
    worker.kill()
    there = reached() - before
    consumer.close()
    assert 0 < there < records, f"killed with {there} of {records} records sent"
    worker.start()
    own.connect.wait_running(f"{own.name}-capture")


@dataclass(frozen=True)
class Silver:
    """The product's own jobs on what the connector has sent."""

    session: SparkSession
    folder: Path

    def of(self, own: LiveSource) -> dict[int, str]:
        tables = Tables(self.session, self.folder)
        tables.put(own.name, *own.delivered()[f"{own.name}.public.{own.name}"][0])
        tables.append(tables.all_of(own.name))
        spec = tables.spec(own.name)
        tables.fold(spec)
        assert not Path(spec.quarantine).exists()
        return {row["id"]: row["v"] for row in values(spec.path)}


@pytest.fixture
def silver(session: SparkSession, tmp_path: Path) -> Silver:
    return Silver(session, tmp_path)


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


def snapshot_rows(own: LiveSource) -> int:
    records = own.delivered()[f"{own.name}.public.{own.name}"][0]
    return sum('"op":"r"' in str(record.value) for record in records)


def test_open_transactions(captured: LiveSource, silver: Silver) -> None:
    """Fault 5: killed while three transactions are open, which end in another order than they began."""
    started(captured)
    name = captured.name
    with ExitStack() as stack:
        sessions = [stack.enter_context(captured.connection(autocommit=False)) for _ in range(3)]
        for number, session in enumerate(sessions):
            session.execute(f"INSERT INTO public.{name} SELECT {number} + 3 * i, 'open' FROM generate_series(0, 99) i".encode())
        run(captured, f"INSERT INTO public.{name} VALUES (1000, 'between')")
        sessions[1].commit()
        until(lambda: 1000 in in_topic(captured))
        killed(captured)
        sessions[2].execute(f"UPDATE public.{name} SET v = 'later' WHERE id = 2".encode())
        sessions[2].commit()
        sessions[0].commit()
    assert silver.of(captured) == in_topic(captured) == in_table(captured)
    assert len(in_table(captured)) == 301


def test_rows_of_one_lsn(captured: LiveSource, silver: Silver) -> None:
    """Fault 6: killed while a COPY and a multi-row INSERT of 60,000 rows are being sent."""
    started(captured)
    name = captured.name
    with captured.connection(autocommit=False) as connection, connection.cursor() as cursor:
        with cursor.copy(f"COPY public.{name} FROM STDIN".encode()) as copy:
            copy.write("".join(f"{n}\tcopied\n" for n in range(30_000)))
        cursor.execute(f"INSERT INTO public.{name} SELECT n, 'inserted' FROM generate_series(30000, 59999) n".encode())
        connection.commit()
        kill_midway(captured, 60_000)
    assert silver.of(captured) == in_topic(captured) == in_table(captured)
    assert len(in_table(captured)) == 60_000


def test_messages_in_transactions(captured: LiveSource, silver: Silver) -> None:
    """Fault 7: what follows a logical message in its transaction is kept over a restart."""
    started(captured)
    name = captured.name
    message = "SELECT pg_logical_emit_message(true, 'theirs', 'hello')"
    with captured.connection(autocommit=False) as connection:
        connection.execute(message.encode())
        connection.execute(f"INSERT INTO public.{name} VALUES (1, 'behind a message')".encode())
        connection.commit()
        killed(captured)
        connection.execute(message.encode())
        connection.execute(f"INSERT INTO public.{name} VALUES (2, 'behind another')".encode())
        connection.execute(message.encode())
        connection.commit()
    killed(captured)
    run(captured, f"UPDATE public.{name} SET v = 'after it' WHERE id = 1")
    assert silver.of(captured) == in_topic(captured) == in_table(captured) == {1: "after it", 2: "behind another"}


def test_snapshot_under_writes(captured: LiveSource, silver: Silver) -> None:
    """Faults 8 and 10: killed in the middle of its first snapshot, while others write."""
    name, rows = captured.name, 40_000
    run(captured, f"INSERT INTO public.{name} SELECT n, 'old' FROM generate_series(1, {rows}) n")
    done, written = Event(), []

    def write() -> None:
        with captured.connection() as connection:
            while not done.wait(0.01):
                number = len(written) + 1
                connection.execute(f"UPDATE public.{name} SET v = 'n{number}' WHERE id = {number % rows + 1}".encode())
                connection.execute(f"DELETE FROM public.{name} WHERE id = {rows - number}".encode())
                connection.execute(f"INSERT INTO public.{name} VALUES ({rows + number}, 'new')".encode())
                written.append(number)

    writer = Thread(target=write)
    writer.start()
    try:
        # Its slot is made before its snapshot: it waits for no end of it.
        captured.capture([f"public.{name}"])
        kill_midway(captured, rows)
        before = len(written)
        until(lambda: len(written) > before + 50)
    finally:
        done.set()
        writer.join()
    # A mark that is written before the second snapshot begins is in no event.
    until(lambda: slot(captured, "active") is not None, 120)
    assert silver.of(captured) == in_topic(captured) == in_table(captured)


def test_idle_after_the_snapshot(captured: LiveSource) -> None:
    """Fault 9: restarted before anything was written, it takes no second snapshot."""
    run(captured, f"INSERT INTO public.{captured.name} SELECT n, 'v' FROM generate_series(1, 50) n")
    captured.capture([f"public.{captured.name}"], heartbeat__interval__ms="500")
    until(lambda: slot(captured, "active") is not None)
    time.sleep(3)
    killed(captured)
    assert snapshot_rows(captured) == 50


def test_failed_blocking_snapshot(captured: LiveSource, silver: Silver) -> None:
    """Fault 11: a snapshot by signal that cannot be taken, and a restart: changes go on without a gap."""
    name, log = captured.name, captured.parts["core-connect"].component.log
    run(captured, f"CREATE TABLE public.{name}_signals (id text PRIMARY KEY, type text, data text)")
    try:
        captured.capture(
            [f"public.{name}"],
            signal__data__collection=f"public.{name}_signals",
            table__include__list=f"public.{name},public.{name}_signals",
        )
        data = {
            "type": "blocking",
            "data-collections": [f"public.{name}"],
            "additional-conditions": [{"data-collection": f"public.{name}", "filter": f"SELECT no_such FROM public.{name}"}],
        }
        with captured.connection() as connection:
            connection.execute(f"INSERT INTO public.{name} VALUES (1, 'before')".encode())
            insert = f"INSERT INTO public.{name}_signals VALUES ('s1', 'execute-snapshot', %s)"
            connection.execute(insert.encode(), [json.dumps(data)])
            connection.execute(f"INSERT INTO public.{name} VALUES (2, 'meanwhile')".encode())
        until(lambda: 'column "no_such" does not exist' in log.read_text())
        killed(captured)
        run(captured, f"INSERT INTO public.{name} VALUES (3, 'after')")
        assert silver.of(captured) == in_topic(captured) == in_table(captured)
        assert len(in_table(captured)) == 3
    finally:
        captured.connect.delete(f"{name}-capture")
        run(captured, f"DROP TABLE public.{name}_signals")


def test_idle_tables_do_not_hold_the_log(captured: LiveSource) -> None:
    """Fault 12: only a table that is not captured is written to, and the slot still moves on."""
    started(captured, heartbeat__interval__ms="500")
    run(captured, "CREATE TABLE IF NOT EXISTS public.others (v text)")
    captured.delivered()
    before = slot(captured, "confirmed_flush_lsn")
    run(captured, *["INSERT INTO public.others SELECT repeat('x', 100) FROM generate_series(1, 1000)"] * 5)
    with captured.connection() as connection:
        row = connection.execute("SELECT pg_current_wal_lsn()::text").fetchone()
    assert row

    def passed() -> bool:
        with captured.connection() as connection:
            query = "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots WHERE slot_name = %s"
            found = connection.execute(query, [row[0], f"cdc_{captured.name}"]).fetchone()
        return bool(found and found[0])

    until(passed)
    assert before != slot(captured, "confirmed_flush_lsn")


def stop_behind_one_row(captured: LiveSource) -> str:
    """The connector has read one row, nothing refuses it, and somebody stops it. The source's name."""
    name = captured.name
    started(captured)
    run(captured, f"INSERT INTO public.{name} VALUES (1, 'read')")
    assert in_topic(captured) == {1: "read"}
    refused(captured)
    captured.connect.stop(f"{name}-capture")
    until(lambda: not slot(captured, "active"))
    return name


def test_a_slot_ahead_of_the_offset(captured: LiveSource) -> None:
    """Fault 4: somebody has moved the slot over a change that was not read. Debezium would go on behind it in silence."""
    name = stop_behind_one_row(captured)
    refused(captured)
    run(captured, f"INSERT INTO public.{name} VALUES (2, 'skipped')")
    run(captured, f"SELECT pg_replication_slot_advance('cdc_{name}', pg_current_wal_lsn())")
    refused(captured, "it was moved, or offsets were set back; what lies between is not sent any more")


def test_a_slot_moved_before_a_worker_starts_again(captured: LiveSource) -> None:
    """Fault 4: nobody looks between the move and the start, and the offset passes the hole. A start without one is none."""
    name, worker = captured.name, captured.parts["core-connect"]
    started(captured, heartbeat__interval__ms="1000")
    run(captured, f"INSERT INTO public.{name} VALUES (1, 'read')")
    assert in_topic(captured) == {1: "read"}
    refused(captured)
    refused(captured)
    worker.kill()
    until(lambda: not slot(captured, "active"))
    run(captured, f"INSERT INTO public.{name} VALUES (2, 'while it was down')")
    worker.start()
    captured.connect.wait_running(f"{name}-capture")
    assert in_topic(captured) == {1: "read", 2: "while it was down"}
    assert noted(captured) is not None
    refused(captured)
    assert noted(captured) is None, "an event behind the start has answered it"
    worker.kill()
    until(lambda: not slot(captured, "active"))
    run(captured, f"INSERT INTO public.{name} VALUES (3, 'skipped')")
    run(captured, f"SELECT pg_replication_slot_advance('cdc_{name}', pg_current_wal_lsn())")
    worker.start()
    captured.connect.wait_running(f"{name}-capture")
    run(captured, f"INSERT INTO public.{name} VALUES (4, 'later')")
    assert sorted(in_topic(captured)) == [1, 2, 4]
    for _ in range(2):
        refused(captured, "the slot had been moved, and what was committed between the two is in no topic")


def test_starts_under_writes_lose_nothing(captured: LiveSource) -> None:
    """Fault 4: a slot that its connector has moved is never taken for one that somebody has moved, wherever that is killed."""
    name, done = captured.name, Event()
    started(captured, heartbeat__interval__ms="1000")
    refused(captured)
    refused(captured)

    def write(first: int) -> None:
        with captured.connection(autocommit=False) as connection:
            number = first
            while not done.is_set():
                # Transactions that overlap, and end in another order than they began.
                for _ in range(1 + number % 7):
                    number += 4
                    connection.execute(f"INSERT INTO public.{name} VALUES ({number}, 'new')".encode())
                    time.sleep(0.001 * (number % 40))
                connection.execute(f"UPDATE public.{name} SET v = 'later' WHERE id = {number}".encode())
                connection.commit()

    writers = [Thread(target=write, args=(first,)) for first in range(4)]
    for writer in writers:
        writer.start()
    answered = 0
    try:
        for _ in range(5):
            killed(captured)
            until(lambda: slot(captured, "active") is not None)
            answered += noted(captured) is not None
            for _ in range(3):
                refused(captured)
                time.sleep(1)
    finally:
        done.set()
        for writer in writers:
            writer.join()
    assert in_topic(captured) == in_table(captured)
    refused(captured)
    assert (answered > 0, noted(captured)) == (True, None)


def noted(own: LiveSource) -> str | None:
    """Where the connector found its slot, as long as that is not answered."""
    with own.connection() as connection:
        row = connection.execute(f"SELECT max(slot_at)::text FROM cdc_assets.starts_{own.name}".encode()).fetchone()
    return row[0] if row else None


def test_a_slot_dropped_while_stopped(captured: LiveSource) -> None:
    """Fault 1: the slot is gone. Nobody of ours starts the connector again, and the finding names the command."""
    name = stop_behind_one_row(captured)
    run(captured, f"INSERT INTO public.{name} VALUES (2, 'in the gap')")
    run(captured, f"SELECT pg_drop_replication_slot('cdc_{name}')")
    refused(captured, "its replication slot is gone")


def refused(own: LiveSource, reason: str = "") -> None:
    """Whether the product lets the connector run, and why not."""
    platform = Platform(core_connect_url=own.connect.url, core_bootstrap=own.bootstrap)
    source = own.source([f"public.{own.name}"])
    with own.settings():
        if not reason:
            refuse_other(platform, source)
            return
        with pytest.raises(IncarnationError, match=reason) as found:
            refuse_other(platform, source)
    assert f"cdc repair source {own.name}" in str(found.value)


def test_rows_of_five_megabytes(captured: LiveSource) -> None:
    """Fault 29: no limit on the way to the topic stands against them."""
    name = captured.name
    started(captured)
    run(captured, f"INSERT INTO public.{name} SELECT 1, string_agg(md5(n::text), '') FROM generate_series(1, 160000) n")
    assert in_topic(captured) == in_table(captured)
