"""A task that is to end and does not is told from Spark's own log."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cdc_assets.clients.spark_sessions import SparkSessions
from cdc_assets.registry.errors import SparkRunError
from cdc_assets.stack.components.spark_connect_server import REAPER, lingering_tasks
from cdc_assets_tests.support.lake.jvm import spark_connect

LINES = """\
2026-11-30T12:00:00.000Z WARN  Executor: Killed task 3 is still running after 70000 ms
2026-11-30T12:01:31.000Z WARN  Executor: Killed task 4 is still running after 10000 ms
2026-11-30T12:01:35.000Z WARN  Executor: Killed task 5 is still running after 80001 ms
2026-11-30T12:01:45.000Z WARN  Executor: Killed task 5 is still running after 90001 ms
2026-11-30T12:01:46.000Z WARN  TaskSetManager: Lost task 0.0 in stage 9.0 (TID 5)
\tat java.base/java.lang.Thread.run
"""


def test_what_has_ended_and_what_was_just_told_is_left_out(tmp_path: Path) -> None:
    log = tmp_path / "spark-connect.log"
    assert lingering_tasks(log, 0.0) == {}
    log.write_text(LINES)
    noon = 1796040000.0
    assert lingering_tasks(log, noon + 110) == {5: 90.001}
    assert lingering_tasks(log, noon + 300) == {}


@pytest.mark.all
@pytest.mark.stack
def test_a_value_that_takes_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its task holds a slot when its job has ended: between two letters nobody looks whether it is to end."""
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    asked = threading.Event()
    sessions: list[SparkSession] = []

    def job(session: SparkSession, _: object) -> None:
        sessions.append(session)
        asked.set()
        texts = session.range(0, 2, 1, 2).selectExpr("repeat('a', 400000 + int(id)) AS a", "repeat('b', 400000) AS b")
        texts.selectExpr("levenshtein(a, b)").collect()

    with spark_connect(tmp_path, conf=REAPER) as (remote, _), ThreadPoolExecutor(1) as pool:
        spark = SparkSessions(remote)
        assert spark.run(has_a_slot, 120.0)  # the server is warm
        work = pool.submit(spark.run, job, None)
        assert asked.wait(120)
        until = time.monotonic() + 120
        while spark.run(has_a_slot, 8.0):
            assert time.monotonic() < until, "no task began"
        while work.running():
            sessions[0].interruptAll()
            time.sleep(1.0)
        assert isinstance(work.exception(), SparkRunError)
        until = time.monotonic() + 150
        while not (found := lingering_tasks(tmp_path / "spark.log", time.time())):
            assert time.monotonic() < until, (tmp_path / "spark.log").read_text()[-2000:]
            time.sleep(1.0)
        assert 1 <= len(found) <= 2
        assert min(found.values()) >= 60


def has_a_slot(session: SparkSession, limit: float) -> bool:
    """Whether a small question is answered within some seconds."""
    stop = threading.Timer(limit, session.interruptAll)
    stop.start()
    try:
        return bool(session.range(0, 9, 1, 1).selectExpr("count(hash(id)) n").collect())
    except PySparkException:
        return False
    finally:
        stop.cancel()
