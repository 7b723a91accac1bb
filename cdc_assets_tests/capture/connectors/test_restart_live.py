"""`cdc restart` on a task that really has failed, and on one that runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from cdc_assets_tests.support.live.cdc import Cdc
from cdc_assets_tests.support.live.clusters import until

CAPTURE, TOPIC = "waiter-capture", "waiter.public.waiter"
BACKEND = "SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'cdc_waiter'"


@pytest.fixture(scope="module")
def cdc(make_cdc: Callable[[str], Cdc]) -> Iterator[Cdc]:
    """Captured by a role of its own, which can be shut out."""
    cdc = make_cdc("waiter")
    with cdc.live.connection() as connection:
        connection.execute(f"CREATE ROLE waiter LOGIN SUPERUSER PASSWORD '{cdc.live.home.secret('live')}'")
        connection.execute("CREATE TABLE public.waiter (id int PRIMARY KEY, v text)")
        connection.execute("INSERT INTO public.waiter VALUES (1, 'one')")
    cdc.declare("public.waiter", heartbeat="1s")
    file = cdc.folder / "waiter.yaml"
    file.write_text(file.read_text().replace("user: live", "user: waiter"))
    assert [row["summary"] for row in cdc.json("apply", "waiter")] == ["created", "created"]
    until(lambda: _backend(cdc) is not None)
    yield cdc
    cdc.lake.connect.delete("waiter-mirror")
    cdc.live.connect.delete(CAPTURE)
    file.unlink()
    with cdc.live.connection() as connection:
        connection.execute("SELECT pg_drop_replication_slot('cdc_waiter')")


def _backend(cdc: Cdc) -> int | None:
    """The server's process that sends the task its log: another one after a restart."""
    with cdc.live.connection() as connection:
        row = connection.execute(BACKEND).fetchone()
    return row[0] if row else None


@pytest.mark.all
def test_only_what_has_failed_is_restarted(cdc: Cdc) -> None:
    before = _backend(cdc)
    assert cdc.json("restart", CAPTURE)[0]["tasks"] == ["RUNNING"]
    assert _backend(cdc) == before
    assert cdc.json("restart", CAPTURE, "--all")[0]["tasks"] == ["RUNNING"]
    until(lambda: _backend(cdc) not in (None, before))


def test_a_task_that_was_shut_out_runs_again_after_restart(cdc: Cdc) -> None:
    with cdc.live.connection() as connection:
        connection.execute("ALTER ROLE waiter NOLOGIN")
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'waiter'")
    (refused,) = cdc.json("restart", CAPTURE, "--all", code=1)
    assert "FAILED" in refused["error"]
    status = cdc.live.connect.status(CAPTURE)
    assert status is not None
    assert status.tasks == ("FAILED",)
    with cdc.live.connection() as connection:
        connection.execute("ALTER ROLE waiter LOGIN")
        connection.execute("INSERT INTO public.waiter VALUES (2, 'while it had failed')")
    assert cdc.json("restart", CAPTURE, "--dry-run")[0]["tasks"] == ["FAILED"]
    assert cdc.json("restart", CAPTURE)[0]["tasks"] == ["RUNNING"]
    assert "while it had failed" in str(cdc.live.delivered()[TOPIC][0][-1].value)
