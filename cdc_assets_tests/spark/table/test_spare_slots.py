"""Comparisons leave a slot of Spark to the chain, however many of them there are and however long their rows take."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from cdc_assets.clients.spark_sessions import SparkSessions
from cdc_assets.clients.table_concurrency import turn_of
from cdc_assets.registry.errors import SparkRunError
from spark.proof.bucket_sums import sum_buckets
from spark.table import spark_plans


def test_a_fold_has_a_slot_beside_three_comparisons(remote: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    spark, asked, over = SparkSessions(remote), threading.Event(), threading.Event()
    working: list[SparkSession] = []

    def compare(session: SparkSession, _: Any) -> None:
        if not over.is_set():
            working.append(session)
            asked.set()
            # More tasks than slots, each for hours.
            sum_buckets(session.range(0, 10**14, 1, 64).selectExpr("hash(id) hash", "0 bucket", "false hidden"))

    with ThreadPoolExecutor(3) as pool:
        comparisons = [pool.submit(spark.compare, compare, None) for _ in range(3)]
        try:
            assert asked.wait(60)
            answers = [spark.run(_small_question, limit) for limit in (60.0, 20.0, 20.0)]
        finally:
            over.set()
            for session in working:
                session.interruptAll()
        failures = [comparison.exception(timeout=60) for comparison in comparisons]
    assert answers == [100, 100, 100]
    assert [type(failure) for failure in failures if failure] == [SparkRunError]  # the one that was ended


def test_the_tasks_of_a_comparison(session: SparkSession) -> None:
    assert spark_plans.in_spare_slots(session.range(0, 64, 1, 8)).select(sf.spark_partition_id()).distinct().count() == 1


def test_whoever_is_told_to_end_waits_for_no_turn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    ended = threading.Event()
    with turn_of("comparisons", ended):
        ended.set()
        with pytest.raises(InterruptedError, match="its turn among comparisons"):
            turn_of("comparisons", ended).__enter__()


def _small_question(session: SparkSession, limit: float) -> int | None:
    """Of one task; None: it was taken back after some seconds of waiting."""
    stop = threading.Timer(limit, session.interruptAll)
    stop.start()
    try:
        return int(session.range(0, 100, 1, 1).selectExpr("count(hash(id)) n").collect()[0].n)
    except PySparkException:
        return None
    finally:
        stop.cancel()
