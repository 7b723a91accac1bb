"""What follows from the Spark that a session runs on: sizes, and where rows are kept that are looked at twice."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from cdc_assets.clients.spark_sessions import SparkSessions
from cdc_assets_tests.support.lake.executors import Executors
from cdc_assets_tests.support.lake.jvm import spark_connect
from cdc_assets_tests.support.lake.standalone import standalone
from spark.table.spark_session import CHECKPOINT_FOLDER, SparkCluster, cluster_of, compute_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_sizes_follow_the_cores() -> None:
    def sizes(slots: int) -> tuple[str, ...]:
        return tuple(SparkCluster("spark://host:7077", slots).sizes().values())

    assert [sizes(slots) for slots in (1, 2, 8, 64, 1_000)] == [("2", "1"), ("2", "1"), ("8", "2"), ("64", "16"), ("1000", "50")]
    masters = {"local": True, "local[*]": True, "local[4]": True, "local-cluster[2,1,1024]": False, "spark://h:7077": False}
    assert {master: SparkCluster(master, 2).is_one_jvm for master in masters} == masters


def test_a_session_has_the_sizes_of_its_server(session: SparkSession) -> None:
    assert cluster_of(session) == SparkCluster("local[2]", 2)
    for name, value in cluster_of(session).sizes().items():
        assert session.conf.get(name) == value


def test_rows_are_computed_once(session: SparkSession) -> None:
    kept = session.range(1_000).selectExpr("uuid() u").transform(compute_once)
    assert sorted(kept.collect()) == sorted(kept.collect())


@pytest.mark.all
@pytest.mark.service
@pytest.mark.parametrize("with_folder", [False, True])
def test_rows_outlive_executors(tmp_path: Path, with_folder: bool) -> None:
    """One of two, where they are kept in memory; both, where they are files of a folder."""
    conf = {CHECKPOINT_FOLDER: str(tmp_path / "kept")} if with_folder else {}
    with (
        standalone(tmp_path / "cluster", workers=2) as master,
        spark_connect(tmp_path / "connect", master=master, conf=conf) as (remote, _),
        ExitStack() as sessions,
    ):
        session = sessions.enter_context(SparkSessions(remote).session())
        assert cluster_of(session) == SparkCluster(master, 2, conf.get(CHECKPOINT_FOLDER, ""))
        kept = session.range(0, 10_000, 1, 8).selectExpr("uuid() u").transform(compute_once)
        before = total(kept)
        executors = Executors(tmp_path / "cluster" / "work", tmp_path / "connect" / "spark.log")
        processes: list[psutil.Process | None] = [executors.process(log) for log in executors.logs()]
        assert len(processes) == 2
        for process in processes[: 2 if with_folder else 1]:
            assert process
            process.kill()
        assert total(kept) == before
        assert bool([*tmp_path.glob("kept/*/rdd-*/part-*")]) is with_folder


def total(rows: Any) -> int:
    return int(rows.selectExpr("sum(hash(u))").collect()[0][0])
