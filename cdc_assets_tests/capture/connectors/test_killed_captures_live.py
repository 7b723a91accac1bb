"""What kills a capture in the middle of something: afterwards silver is the table, or it is red.

Oracle: the table itself. So must be what a reader has who folds the topic by its order, and what our jobs make of it. The
numbers of the faults are those of docs/reference/faults.md.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from cdc_assets_tests.support.lake.both_writers import compare_writers
from cdc_assets_tests.support.lake.lake import Lake as Tables
from cdc_assets_tests.support.lake.lake import values
from cdc_assets_tests.support.live.captured_table import in_table, in_topic, kill_worker, run, slot, start_streaming
from cdc_assets_tests.support.live.clusters import until
from cdc_assets_tests.support.live.live_source import LiveSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all


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

    before, deadline = reached(), time.monotonic() + 300
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
        compare_writers(tables)
        assert not Path(spec.quarantine).exists()
        return {row["id"]: row["v"] for row in values(spec.path)}


@pytest.fixture
def silver(session: SparkSession, tmp_path: Path) -> Silver:
    return Silver(session, tmp_path)


def snapshot_rows(own: LiveSource) -> int:
    records = own.delivered()[f"{own.name}.public.{own.name}"][0]
    return sum('"op":"r"' in str(record.value) for record in records)


def test_open_transactions(captured: LiveSource, silver: Silver) -> None:
    """Fault 5: killed while three transactions are open, which end in another order than they began."""
    start_streaming(captured)
    name = captured.name
    with ExitStack() as stack:
        sessions = [stack.enter_context(captured.connection(autocommit=False)) for _ in range(3)]
        for number, session in enumerate(sessions):
            session.execute(f"INSERT INTO public.{name} SELECT {number} + 3 * i, 'open' FROM generate_series(0, 99) i".encode())
        run(captured, f"INSERT INTO public.{name} VALUES (1000, 'between')")
        sessions[1].commit()
        until(lambda: 1000 in in_topic(captured))
        kill_worker(captured)
        sessions[2].execute(f"UPDATE public.{name} SET v = 'later' WHERE id = 2".encode())
        sessions[2].commit()
        sessions[0].commit()
    assert silver.of(captured) == in_topic(captured) == in_table(captured)
    assert len(in_table(captured)) == 301


def test_rows_of_one_lsn(captured: LiveSource, silver: Silver) -> None:
    """Fault 6: killed while a COPY and a multi-row INSERT of 60,000 rows are being sent."""
    start_streaming(captured)
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
    start_streaming(captured)
    name = captured.name
    message = "SELECT pg_logical_emit_message(true, 'theirs', 'hello')"
    with captured.connection(autocommit=False) as connection:
        connection.execute(message.encode())
        connection.execute(f"INSERT INTO public.{name} VALUES (1, 'behind a message')".encode())
        connection.commit()
        kill_worker(captured)
        connection.execute(message.encode())
        connection.execute(f"INSERT INTO public.{name} VALUES (2, 'behind another')".encode())
        connection.execute(message.encode())
        connection.commit()
    kill_worker(captured)
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
    # Killed earlier, right behind the first stored offset, it sends no row at all: docs/reference/faults.md, Capture.
    time.sleep(3)
    kill_worker(captured)
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
        kill_worker(captured)
        run(captured, f"INSERT INTO public.{name} VALUES (3, 'after')")
        assert silver.of(captured) == in_topic(captured) == in_table(captured)
        assert len(in_table(captured)) == 3
    finally:
        captured.connect.delete(f"{name}-capture")
        run(captured, f"DROP TABLE public.{name}_signals")


def test_idle_tables_do_not_hold_the_log(captured: LiveSource) -> None:
    """Fault 12: only a table that is not captured is written to, and the slot still moves on."""
    start_streaming(captured, heartbeat__interval__ms="500")
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


def test_rows_of_five_megabytes(captured: LiveSource) -> None:
    """Fault 29: no limit on the way to the topic stands against them."""
    name = captured.name
    start_streaming(captured)
    run(captured, f"INSERT INTO public.{name} SELECT 1, string_agg(md5(n::text), '') FROM generate_series(1, 160000) n")
    assert in_topic(captured) == in_table(captured)
