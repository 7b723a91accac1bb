"""A job of Spark that takes far longer than its like is told, with its table and the command that ends it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from cdc_assets.capture.preflight.lake_and_spark import inspect_spark
from cdc_assets.cli.cdc_command import app
from cdc_assets.cli.verbs.status import long_work
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.spark_sessions import SparkSessions
from cdc_assets.clients.spark_work import note_work, overlong_work
from cdc_assets.registry.durable_file import read_json, replace_json
from cdc_assets_tests.support.values.long_values import LONG
from spark.proof import bucket_sums as reconcile
from spark.silver import fold_job as silver
from spark.specs import Column, SilverSpec
from spark.values.lake_types import can_be_long

HOUR = 3600.0


def spec(table: str) -> SilverSpec:
    return SilverSpec("shop", table, "bronze", "silver", (Column("id", "integer"),), ("id",))


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    return tmp_path


def test_a_job_is_measured_against_its_like() -> None:
    with note_work(silver.run, spec("public.orders")):
        assert overlong_work(time.time() + HOUR - 9) == []
        assert overlong_work(time.time() + HOUR + 9) == [
            f"a fold of shop.public.orders works for 60 minutes (process {os.getpid()}), and it is the first of its like"
        ]
    with note_work(silver.run, spec("public.orders")), note_work(silver.run, spec("public.lines")):
        assert overlong_work(time.time() + 290) == []
        assert overlong_work(time.time() + 400) == [
            f"a fold of shop.public.orders works for 6 minutes (process {os.getpid()}), and its like took at most 1 s"
        ]
    assert overlong_work(time.time() + 9 * HOUR) == []


def test_long_jobs_have_long_likes(home: Path) -> None:
    with note_work(silver.run, spec("t")):
        pass
    (file,) = (home / "run" / "spark-work" / "seconds").glob("*.json")
    replace_json(file, [3.0, 120.0, 40.0])
    with note_work(silver.run, spec("t")):
        assert overlong_work(time.time() + 1190) == []
        (told,) = overlong_work(time.time() + 1210)
        assert told.endswith("its like took at most 120 s")
    with pytest.raises(ZeroDivisionError), note_work(silver.run, spec("t")):
        raise ZeroDivisionError
    assert read_json(file) == [3.0, 120.0, 40.0]


def test_of_one_table_the_columns_are_named_that_can_hold_a_long_value() -> None:
    types = {"id": "integer", "area": "polygon", "name": "character varying(40)", "tags": "text[]", "price": "numeric(10,2)"}
    types |= {"at": "timestamp with time zone", "who": "uuid", "doc": "jsonb", "note": "text"}
    columns = tuple(Column(name, type_) for name, type_ in types.items())
    with note_work(reconcile.digest, replace(spec("public.shapes"), columns=columns)):
        (told,) = overlong_work(time.time() + 2 * HOUR)
    assert told.endswith("it is the first of its like; long values can be in area, tags, doc, 1 more column")


def test_every_type_of_the_bench_can_be_long() -> None:
    assert [name for name in LONG if not can_be_long(Column("c", name))] == []
    own = ("longtext", "mediumblob", "json", "varchar(20000)")
    assert [name for name in own if not can_be_long(Column("c", name, dialect="mariadb"))] == []


def test_of_many_tables_some_are_named() -> None:
    with note_work(reconcile.digest, [spec(f"t{i}") for i in range(6)]):
        (told,) = overlong_work(time.time() + 2 * HOUR)
    assert told.startswith("a comparison of shop.t0, shop.t1, shop.t2, 3 more tables works for 120 minutes")


def test_files_of_a_killed_process_go(home: Path) -> None:
    code = (
        "import os, signal; from cdc_assets.clients.spark_work import note_work\n"
        "with note_work(print, None): os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == -9
    assert len([*(home / "run" / "spark-work").glob("*.json")]) == 1
    assert overlong_work(time.time() + 9 * HOUR) == []
    assert [*(home / "run" / "spark-work").glob("*.json")] == []


def test_status_and_preflight_tell_it_with_the_command(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = "sc://localhost:1"
    replace_json(home / "stack.json", {"environment": {"CDC_SPARK_REMOTE": place}, "keys": {place: "key"}})
    assert (long_work(), inspect_spark(Platform())) == ([], None)
    with note_work(reconcile.digest, spec("public.shapes")):
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 2 * HOUR)
        (row,) = long_work()
        report = inspect_spark(Platform())
    assert row["health"] == "unhealthy"
    assert row["detail"].startswith("a comparison of shop.public.shapes works for 120 minutes")
    assert row["detail"].endswith(": cdc restart spark-connect ends it")
    assert report is not None
    (finding,) = report.findings
    assert (finding.level, finding.mend) == ("warn", "cdc restart spark-connect")


def test_a_job_that_runs_is_seen_and_one_that_has_ended_is_not(remote: str) -> None:
    def look(_: SparkSession, asked: SilverSpec) -> list[str]:
        return overlong_work(time.time() + 2 * HOUR)

    spark = SparkSessions(remote)
    for run in (spark.run, spark.compare, spark.run_in_tasks):
        (told,) = run(look, spec("public.orders"))
        assert "of shop.public.orders works for" in told
    assert overlong_work(time.time() + 2 * HOUR) == []


def test_without_a_stack_no_spark_is_restarted() -> None:
    result = CliRunner().invoke(app, ["restart", "spark-connect"])
    assert result.exit_code != 0
    assert "runs no Spark" in result.output
