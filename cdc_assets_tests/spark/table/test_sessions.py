"""Sessions of one process on one Spark Connect server."""

from __future__ import annotations

import gc
import threading
import weakref
from uuid import uuid4

from cdc_assets_tests.support.own_stack import until


def test_closing_one_leaves_the_others_at_work(remote: str) -> None:
    from pyspark.sql.connect.client.reattach import ExecutePlanResponseReattachableIterator as Calls

    from spark.table.spark_session import connect

    stays = connect(remote)
    rows = stays.range(0, 200_000, 1, 4).toLocalIterator()
    assert next(rows)[0] == 0
    connect(remote).stop()
    assert sum(1 for _ in rows) == 200_000 - 1
    # Collected in a thread of the pool itself, which cannot wait for its own end.
    pool = Calls._get_or_create_release_thread_pool()
    forgotten = [connect(remote)]
    dropped = threading.Event()

    def drop() -> None:
        forgotten.clear()
        gc.collect()
        dropped.set()

    pool.submit(drop)
    assert dropped.wait(120)
    assert stays.range(3).count() == 3
    stays.stop()


def test_a_closed_one_leaves_nothing_in_its_process(remote: str) -> None:
    """`cdc stream` opens two a cycle, for weeks."""
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    from spark.table.spark_session import connect, leave

    threads = ConnectSession._active_session
    before = getattr(threads, "session", None)
    own, shared = connect(remote), connect(remote, session_id=str(uuid4()))
    assert own.range(3).count() == shared.range(3).count() == 3
    assert own.client._channel is shared.client._channel
    left = [weakref.ref(client) for client in (own.client, shared.client)]
    own.stop()
    leave(shared)
    threads.session = before
    del own, shared

    def is_gone() -> bool:
        gc.collect()
        return [client() for client in left] == [None, None]

    # A thread of PySpark's may still tell the server that it has the last answer.
    until(is_gone)
