"""Jobs whose tasks run Python share a session, so that the server keeps one daemon and its workers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psutil

from cdc_assets.resources.spark import SparkSessions
from spark.delta.session import connect, task_session_id

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def tell_pid(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for _ in batches:
        yield pa.RecordBatch.from_pydict({"pid": [os.getpid()]})


def worker(session: SparkSession, _: None) -> int:
    return int(session.range(0, 1, 1, 1).mapInArrow(tell_pid, "pid bigint").collect()[0].pid)


def test_one_worker_for_all(session: SparkSession, remote: str) -> None:
    sessions = SparkSessions(remote)
    first = sessions.run_in_tasks(worker, None)
    daemon = psutil.Process(first).parent()
    assert daemon is not None
    server = daemon.parent()
    assert server is not None
    daemons = server.children()
    assert {sessions.run_in_tasks(worker, None) for _ in range(4)} == {first}
    assert server.children() == daemons


def test_a_session_that_the_server_has_closed_is_followed_by_another(session: SparkSession, remote: str) -> None:
    sessions = SparkSessions(remote)
    before = sessions.run_in_tasks(worker, None)

    def release() -> None:
        shared: Any = connect(remote, session_id=task_session_id())
        shared.client.release_session()
        shared.client.close()

    with ThreadPoolExecutor(1) as thread:  # of its own: a thread's first session becomes its active one
        thread.submit(release).result()
    after = sessions.run_in_tasks(worker, None)
    assert after != before
    assert sessions.run_in_tasks(worker, None) == after
