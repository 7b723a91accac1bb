"""Silver around the fold: restores, limits, several writers at once, a server that dies, an empty table."""

from __future__ import annotations

import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.errors import PySparkException
from pyspark.sql.connect.client.retries import DefaultPolicy

from cdc_assets_tests.support.lake.committed import committed
from cdc_assets_tests.support.lake.delta_reader import read
from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.jvm import spark_connect
from cdc_assets_tests.support.lake.lake import Lake, rows, values
from spark.errors import TableStopError
from spark.silver import spark_merge
from spark.specs import Column, SilverSpec
from spark.table.delta_table import Commit
from spark.table.spark_session import connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def found(path: str) -> list[tuple[int, str]]:
    return sorted((row["id"], row["v"]) for row in values(path))


def test_rows_come_back_after_a_restore(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    spec = lake.spec("t")
    for offset in range(3):
        lake.put("t", event(offset, {"id": offset, "v": "x"}))
        lake.append(lake.all_of("t"))
        lake.fold(spec)
    session.sql(f"RESTORE delta.`{spec.path}` TO VERSION AS OF 0").collect()
    assert found(spec.path) == [(0, "x")]
    assert lake.fold(spec).rows_inserted == 2
    assert found(spec.path) == [(0, "x"), (1, "x"), (2, "x")]
    session.sql(f"RESTORE delta.`{lake.bronze_path}` TO VERSION AS OF 1").collect()
    assert lake.append(lake.all_of("t")).rows_inserted == 1
    assert sorted(row["offset"] for row in rows(lake.bronze_path)) == [0, 1, 2]
    assert lake.fold(spec).version is None


def test_a_limit_folds_no_further(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    spec = lake.spec("t")
    for offset, value in enumerate("ab"):
        lake.put("t", event(offset, {"id": 1, "v": value}))
        lake.append(lake.all_of("t"))
    lake.fold(spec, limit=0)
    assert found(spec.path) == [(1, "a")]
    lake.fold(spec)
    assert found(spec.path) == [(1, "b")]


def test_columns_called_as_variables_of_sql(session: SparkSession, tmp_path: Path) -> None:
    """Spark replaces `${x}` in a statement's text by the value of a setting x, or by nothing."""
    lake = Lake(session, tmp_path)
    old = (Column("id", "integer", False), Column("w${x}", "text"), Column("w${y}", "text"))
    new = (*old, Column("more ${env:PATH}", "text"))
    rows_ = [{"id": n, **{c.name: f"{c.name} {n}" for c in new[1:]}} for n in range(2)]
    for number, columns in enumerate((old, new)):
        lake.put("t", event(number, {c.name: rows_[number][c.name] for c in columns}))
        lake.append(lake.all_of("t"))
        lake.fold(lake.spec("t", columns))
    found = [{c.name: row[c.name] for c in new} for row in read(lake.spec("t").path)]
    assert sorted(found, key=itemgetter("id")) == [{**rows_[0], new[-1].name: None}, rows_[1]]


def test_an_empty_topic_makes_an_empty_table(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    assert lake.fold(lake.spec("t")).version is None
    lake.append(lake.ranges("t", {0: 0}))
    assert lake.fold(lake.spec("t")).version == 0
    assert rows(lake.spec("t").path) == []


@pytest.mark.parametrize("from_bytes", [1, 1 << 40])
def test_a_large_table_gets_deletion_vectors_with_its_first_commit(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, from_bytes: int
) -> None:
    monkeypatch.setattr("spark.silver.silver_table.DELETION_VECTORS_FROM", from_bytes)
    lake = Lake(session, tmp_path, by_task=False)  # a first commit of Spark's
    lake.put("t", event(0, {"id": 1, "v": "a"}))
    lake.append(lake.all_of("t"))
    lake.fold(lake.spec("t"))
    written = DeltaTable(lake.spec("t").path).metadata().configuration
    assert written["delta.enableDeletionVectors"] == ("true" if from_bytes == 1 else "false")


def test_a_table_of_somebody_else_is_left_as_it_is(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    spec = lake.spec("t")
    for path in (spec.path, lake.bronze_path):
        write_deltalake(path, pa.table({"id": [7], "v": ["theirs"]}))
    lake.put("t", event(0, {"id": 1, "v": "a"}))
    with pytest.raises(TableStopError, match=r"bronze/source is a Delta table without a commit of ours: it is left"):
        lake.append(lake.all_of("t"))
    shutil.rmtree(lake.bronze_path)
    lake.append(lake.all_of("t"))
    with pytest.raises(TableStopError, match="without a commit of ours"):
        lake.fold(spec)
    theirs = DeltaTable(spec.path)
    assert (theirs.version(), theirs.to_pyarrow_table().to_pylist()) == (0, [{"id": 7, "v": "theirs"}])


@pytest.mark.all
def test_appends_of_different_tables_at_once(remote: str, session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    tables = ["a", "b", "c"]
    for table in tables:
        lake.put(table, *[event(offset, {"id": offset, "v": table}) for offset in range(6)])

    def work(table: str) -> None:
        own = connect(remote)
        for end in (2, 4, 6):
            lake.append(lake.ranges(table, {0: end}), session=own)
        own.stop()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, tables))
    state = committed(lake.bronze_path)
    assert {t.table: (t.positions, t.records) for t in state.topics.values()} == {t: ({0: 6}, 6) for t in tables}
    assert len(rows(lake.bronze_path)) == 18


@pytest.mark.all
def test_the_server_dies_while_folding(session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the MERGE goes to the server that dies: a new JVM takes half a minute for all that comes before it."""
    lake = Lake(session, tmp_path)
    spec = lake.spec("t")
    lake.put("t", *[event(offset, {"id": offset % 50, "v": f"v{offset}"}) for offset in range(200)])
    lake.append(lake.ranges("t", {0: 100}))
    lake.fold(spec)
    lake.append(lake.ranges("t", {0: 200}))
    lake.by_task = False
    with spark_connect(tmp_path / "other") as (address, kill):
        other, execute = connect(address), spark_merge.execute
        # The product asks a dead server for a minute (spark.table.spark_session).
        other.client.set_retry_policies([DefaultPolicy(max_retries=2)])

        def elsewhere(_: SparkSession, spec: SilverSpec, source: DataFrame, *args: Any, **options: Any) -> Commit:
            done = execute(other, spec, other.createDataFrame(source.toArrow(), source.schema), *args, **options)
            # It came after the answer: then the next question is the first that is not answered.
            killer.join()
            other.range(1).count()
            return done

        before = len(list(Path(spec.path).glob("*.parquet")))
        # Death comes once the MERGE has written a data file: before, at, or just after its commit.
        killer = threading.Thread(target=_once_it_writes, args=(Path(spec.path), before, kill), daemon=True)
        killer.start()
        with monkeypatch.context() as patch:
            patch.setattr(spark_merge, "execute", elsewhere)
            with pytest.raises(PySparkException):
                lake.fold(spec)
    lake.fold(spec)
    assert found(spec.path) == sorted((offset % 50, f"v{offset}") for offset in range(150, 200))


def _once_it_writes(table: Path, before: int, kill) -> None:
    deadline = time.monotonic() + 400
    while len(list(table.glob("*.parquet"))) <= before and time.monotonic() < deadline:
        time.sleep(0.002)
    kill()
