"""Sessions of one process on one Spark Connect server."""

from __future__ import annotations

import gc
import threading


def test_closing_one_leaves_the_others_at_work(remote: str) -> None:
    from pyspark.sql.connect.client.reattach import ExecutePlanResponseReattachableIterator as Calls

    from spark.delta.session import connect

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
