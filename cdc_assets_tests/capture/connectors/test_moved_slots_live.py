"""What robs a capture of its slot, or moves it: the product tells it at its next look, and names the command that mends it.

The numbers of the faults are those of docs/reference/faults.md.
"""

from __future__ import annotations

import time
from threading import Event, Thread

import pytest

from cdc_assets.capture.incarnations.server_verdict import refuse_other
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry.errors import RefusalError
from cdc_assets_tests.support.live.captured_table import in_table, in_topic, kill_worker, run, slot, start_streaming
from cdc_assets_tests.support.live.clusters import until
from cdc_assets_tests.support.live.live_source import LiveSource

pytestmark = pytest.mark.all


def stop_behind_one_row(captured: LiveSource) -> str:
    """The connector has read one row, nothing refuses it, and somebody stops it. The source's name."""
    name = captured.name
    start_streaming(captured)
    run(captured, f"INSERT INTO public.{name} VALUES (1, 'read')")
    assert in_topic(captured) == {1: "read"}
    check_capture(captured)
    captured.connect.stop(f"{name}-capture")
    until(lambda: not slot(captured, "active"))
    return name


def test_a_slot_dropped_while_stopped(captured: LiveSource) -> None:
    """Fault 1: the slot is gone. Nobody of ours starts the connector again, and the finding names the command."""
    name = stop_behind_one_row(captured)
    run(captured, f"INSERT INTO public.{name} VALUES (2, 'in the gap')")
    run(captured, f"SELECT pg_drop_replication_slot('cdc_{name}')")
    check_capture(captured, "its replication slot is gone")


def test_a_slot_ahead_of_the_offset(captured: LiveSource) -> None:
    """Fault 4: somebody has moved the slot over a change that was not read. Debezium would go on behind it in silence."""
    name = stop_behind_one_row(captured)
    check_capture(captured)
    run(captured, f"INSERT INTO public.{name} VALUES (2, 'skipped')")
    run(captured, f"SELECT pg_replication_slot_advance('cdc_{name}', pg_current_wal_lsn())")
    check_capture(captured, "it was moved, or offsets were set back; what lies between is not sent any more")


def test_a_slot_moved_before_a_worker_starts_again(captured: LiveSource) -> None:
    """Fault 4: nobody looks between the move and the start, and the offset passes the hole. A start without one is none."""
    name, worker = captured.name, captured.parts["core-connect"]
    start_streaming(captured, heartbeat__interval__ms="1000")
    run(captured, f"INSERT INTO public.{name} VALUES (1, 'read')")
    assert in_topic(captured) == {1: "read"}
    check_capture(captured)
    check_capture(captured)
    worker.kill()
    until(lambda: not slot(captured, "active"))
    run(captured, f"INSERT INTO public.{name} VALUES (2, 'while it was down')")
    worker.start()
    captured.connect.wait_running(f"{name}-capture")
    assert in_topic(captured) == {1: "read", 2: "while it was down"}
    noted = start_notes(captured)
    assert noted != []
    check_capture(captured)
    # Debezium connects four times in three seconds; one behind the event notes a place that the next event answers.
    assert noted[0] not in start_notes(captured), "an event behind the start has answered it"
    worker.kill()
    until(lambda: not slot(captured, "active"))
    run(captured, f"INSERT INTO public.{name} VALUES (3, 'skipped')")
    run(captured, f"SELECT pg_replication_slot_advance('cdc_{name}', pg_current_wal_lsn())")
    worker.start()
    captured.connect.wait_running(f"{name}-capture")
    run(captured, f"INSERT INTO public.{name} VALUES (4, 'later')")
    assert sorted(in_topic(captured)) == [1, 2, 4]
    for _ in range(2):
        check_capture(captured, "the slot had been moved, and what was committed between the two is in no topic")


def test_starts_under_writes_lose_nothing(captured: LiveSource) -> None:
    """Fault 4: a slot that its connector has moved is never taken for one that somebody has moved, wherever that is killed."""
    name, done = captured.name, Event()
    start_streaming(captured, heartbeat__interval__ms="1000")
    check_capture(captured)
    check_capture(captured)

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
            kill_worker(captured)
            until(lambda: slot(captured, "active") is not None)
            answered += start_notes(captured) != []
            for _ in range(3):
                check_capture(captured)
                time.sleep(1)
    finally:
        done.set()
        for writer in writers:
            writer.join()
    assert in_topic(captured) == in_table(captured)
    check_capture(captured)
    assert (answered > 0, start_notes(captured)) == (True, [])


def start_notes(own: LiveSource) -> list[str]:
    """Where the connector found its slot, the lowest first, as long as that is not answered."""
    with own.connection() as connection:
        rows = connection.execute(f"SELECT slot_at::text FROM cdc_assets.starts_{own.name} ORDER BY slot_at".encode()).fetchall()
    return [row[0] for row in rows]


def check_capture(own: LiveSource, reason: str = "") -> None:
    """Whether the product lets the connector run, and why not."""
    platform = Platform(core_connect_url=own.connect.url, core_bootstrap=own.bootstrap)
    source = own.source([f"public.{own.name}"])
    with own.settings():
        if not reason:
            refuse_other(Chain(platform, source))
            return
        with pytest.raises(RefusalError, match=reason) as found:
            refuse_other(Chain(platform, source))
    assert f"cdc repair source {own.name}" in str(found.value)
