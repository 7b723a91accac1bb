"""Jobs whose tasks run Python share a session, so that the server keeps one daemon of Python for all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from cdc_assets.clients.spark_sessions import SparkSessions
from spark.table import spark_session as sessions_of_spark
from spark.table.spark_session import connect

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def own_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions of the test's own: other parts of a run are at work in the shared ones, on the same server."""
    ids = [str(uuid4()) for _ in range(3)]
    monkeypatch.setattr(sessions_of_spark, "task_session_id", lambda number=0: ids[number])


def tell_daemon(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for _ in batches:
        yield pa.RecordBatch.from_pydict({"pid": [os.getppid()]})


def daemon(session: SparkSession, _: None) -> int:
    return int(session.range(0, 1, 1, 1).mapInArrow(tell_daemon, "pid bigint").collect()[0].pid)


def test_one_daemon_for_all(session: SparkSession, remote: str) -> None:
    sessions = SparkSessions(remote)
    first = sessions.run_in_tasks(daemon, None)
    assert {sessions.run_in_tasks(daemon, None) for _ in range(4)} == {first}
    assert sessions.run(daemon, None) != first


def test_a_session_that_the_server_has_closed_is_followed_by_another(session: SparkSession, remote: str) -> None:
    sessions = SparkSessions(remote)
    before = sessions.run_in_tasks(daemon, None)

    def release() -> None:
        shared: Any = connect(remote, session_id=sessions_of_spark.task_session_id())
        shared.client.release_session()
        shared.client.close()

    with ThreadPoolExecutor(1) as thread:  # of its own: a thread's first session becomes its active one
        thread.submit(release).result()
    after = sessions.run_in_tasks(daemon, None)
    assert after != before
    assert sessions.run_in_tasks(daemon, None) == after
