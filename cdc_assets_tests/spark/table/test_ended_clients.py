"""A command that is ended by Ctrl-C or SIGTERM ends its jobs: others have the server's slots at once."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cdc_assets.clients.spark_sessions import SparkSessions

# Both slots of the server, for hours; in a thread of a pool, as comparisons work.
COMMAND = """
import sys
from concurrent.futures import ThreadPoolExecutor
from cdc_assets.cli import cdc_command as cli
from cdc_assets.clients.spark_sessions import SparkSessions

def job(session, how):
    print("asked", flush=True)
    return session.range(0, 10**14, 1, 64).selectExpr("sum(hash(id))").collect()

def work(*_, **__):
    spark = SparkSessions(sys.argv[1])
    run = spark.run_in_tasks if sys.argv[2] == "shared" else spark.run
    with ThreadPoolExecutor(1) as pool:
        [*pool.map(lambda _: run(job, ""), range(3))]

cli.app = work
cli.main()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.all)])
@pytest.mark.parametrize("session", ["own", pytest.param("shared", marks=pytest.mark.all)])
def test_its_jobs_end_with_it(remote: str, number: signal.Signals, session: str) -> None:
    assert _seconds_of_a_question(remote, 120.0) is not None  # the server is warm
    process = subprocess.Popen([sys.executable, "-c", COMMAND, remote, session], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"asked\n"
        assert _seconds_of_a_question(remote) is None  # it waits for a slot
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
        assert _seconds_of_a_question(remote, 20.0) is not None
        assert (process.returncode, b"interrupted, with its Spark jobs" in said) == (130, True), said
    finally:
        process.kill()


def _seconds_of_a_question(remote: str, limit: float = 10.0) -> float | None:
    """How long a small question takes that wants both slots; None: it was taken back after some seconds of waiting."""

    def ask(session: SparkSession, limit: float) -> float | None:
        began, stop = time.monotonic(), threading.Timer(limit, session.interruptAll)
        stop.start()
        try:
            session.range(0, 100, 1, 2).selectExpr("sum(hash(id))").collect()
        except PySparkException:
            return None
        finally:
            stop.cancel()
        return time.monotonic() - began

    return SparkSessions(remote).run(ask, limit)
