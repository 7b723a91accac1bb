"""A second Spark beside the tests' own: both append to one table on one disk, where released Delta guards a commit within one
JVM only; and one with an executor in a process of its own loses that in the middle of a comparison."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import psutil
import pytest

from cdc_assets.clients.delta_log import bronze_committed
from cdc_assets_tests.support.counted_check import check
from cdc_assets_tests.support.lake.bronze_writers import Meeting, offsets
from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.jvm import spark_connect
from cdc_assets_tests.support.lake.standalone import standalone
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.live.small_chain import small_chain
from spark.table.spark_session import connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
DDL = """
CREATE TABLE gauge (id int PRIMARY KEY, v text);
INSERT INTO gauge SELECT i, 'v' || i FROM generate_series(1, 300) i;
"""
LOST = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
# The copy of a log's state that Delta keeps is made again when it is lost, and so must not be taken for a checkpoint.
STATE_ON_DISK = {"spark.databricks.delta.snapshotCache.storageLevel": "DISK_ONLY"}


@dataclass(frozen=True)
class Second:
    """Its address, its log, and the folders of its executors."""

    remote: str
    log: Path
    work: Path

    def executors(self) -> list[Path]:
        return sorted(self.work.glob("app-*/*/stderr"))

    def kill_executor(self) -> None:
        """It is told from others by its folder."""
        (process,) = [p for p in psutil.process_iter(["cmdline", "cwd"]) if self._is_executor(p)]
        process.kill()

    def _is_executor(self, process: psutil.Process) -> bool:
        at = Path(process.info["cwd"] or "/")
        return self.work in at.parents and any("CoarseGrainedExecutorBackend" in word for word in process.info["cmdline"] or ())


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Second]:
    folder = tmp_path_factory.mktemp("second")
    with (
        standalone(folder / "cluster") as master,
        spark_connect(folder / "connect", master=master, conf=STATE_ON_DISK) as (remote, _),
    ):
        yield Second(remote, folder / "connect" / "spark.log", folder / "cluster" / "work")


@pytest.fixture
def other(tmp_path: Path) -> Iterator[str]:
    with spark_connect(tmp_path / "other") as (remote, _):
        yield remote


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def in_the_middle(said: str) -> bool:
    """Whether an executor's log tells of a task that runs, and of one before it that kept a checkpoint's block in memory."""
    stored = re.search(r"Block rdd_\d+_\d+ stored as values in memory", said)
    done = said.find("Finished task", stored.end()) if stored else -1
    later = said[done:] if done >= 0 else ""
    return later.count("Running task") >= later.count("Finished task") > 0


@contextmanager
def executor_killed(second: Second) -> Iterator[threading.Event]:
    """In the block the first executor is killed, once it is in the middle; the event tells that it was."""
    killed, over = threading.Event(), threading.Event()

    def watch() -> None:
        while not over.is_set() and not killed.is_set():
            if any(in_the_middle(log.read_text()) for log in second.executors()):
                second.kill_executor()
                killed.set()
            time.sleep(0.005)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join(60)


@pytest.mark.all
def test_a_comparison_that_loses_its_executor_ends_equal(
    live: LiveSource, remote: str, session: SparkSession, second: Second, tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    """The check was red: CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND."""
    own = replace(live, name="executor")
    with own.connection() as connection:
        connection.execute(DDL)
    with small_chain(own, remote, session, tmp_path, ["public.gauge"]) as chain:
        with own.connection() as connection:
            connection.execute("UPDATE gauge SET v = 'new' WHERE id % 3 = 0")
        # In bronze and not in silver: a comparison looks at it more than once, and so keeps it.
        chain.advance(fold=False)
        elsewhere = replace(chain, remote=second.remote)
        with executor_killed(second) as killed:
            went, found = check(chain.source, elsewhere.platform, instance)
        assert killed.is_set()
        assert (went, found.passed) == (True, True), found.description
        assert (found.metadata["cdc/source_rows"].value, found.metadata["cdc/silver_rows"].value) == (300, 300)
    assert LOST in second.log.read_text()
    assert len(second.executors()) > 1


@pytest.mark.all
def test_two_jvms_append_a_range_once(remote: str, session: SparkSession, other: str, tmp_path: Path) -> None:
    lake, rounds = Meeting(session, tmp_path), 2
    lake.put("t", *[Record(offset, None, f'{{"op":"c","n":{offset}}}') for offset in range(4 * rounds + 3)])
    lake.met.add(threading.get_ident())
    lake.append(lake.ranges("t", {0: 1}))
    for end in range(4, 4 * rounds + 1, 4):
        lake.at_once((remote, lake.ranges("t", {0: end})), (other, lake.ranges("t", {0: end + 2})))
        held = offsets(lake.bronze_path)
        assert {n for _, n in held} >= {*range(end)}
        assert set(held.values()) == {1}
    # What is left, alone: first by one, then by the other, which finds nothing.
    lake.met.add(threading.get_ident())
    told = [lake.append(lake.ranges("t", {0: 4 * rounds + 3}), session=connect(each)) for each in (remote, other)]
    assert (told[0].rows_inserted > 0, told[1].rows_inserted) == (True, 0)
    assert offsets(lake.bronze_path) == Counter(("t", n) for n in range(4 * rounds + 3))
    committed = bronze_committed(lake.bronze_path)
    assert committed is not None
    assert [state.records for state in committed.topics.values()] == [4 * rounds + 3]
