"""Small batches are interpreted, large ones compiled; asked of Spark itself, which shows the plan that it runs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from spark.table import spark_plans
from spark.table.data_files import ROWS_A_GROUP, write_file
from spark.table.spark_session import connect
from spark.table.table_folder import open_folder
from spark.table.topic_commits import CommittedTopic


def is_compiled(session: SparkSession) -> bool:
    """Whether the plan holds a stage of generated code ("*(1) …" in Spark's own explanation)."""
    answer = session.sql("EXPLAIN SELECT id + 1 FROM range(10)").first()
    assert answer
    return "*(1)" in str(answer[0])


def test_a_small_batch_is_interpreted_and_a_large_one_compiled(remote: str) -> None:
    session = connect(remote)
    try:
        spark_plans.suit(session, events=spark_plans.EVENTS_UP_TO, rows=spark_plans.ROWS_UP_TO)
        assert not is_compiled(session)
        for given in ({"events": spark_plans.EVENTS_UP_TO + 1}, {"events": 1, "rows": spark_plans.ROWS_UP_TO + 1}):
            spark_plans.suit(session, **given)
            assert is_compiled(session)
            spark_plans.suit(session, events=0)
            assert not is_compiled(session)
    finally:
        session.stop()


def test_a_file_of_many_rows_is_read_by_several_tasks(remote: str, tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array(range(4 * ROWS_A_GROUP))})
    file = write_file(open_folder(str(tmp_path)), rows)
    assert file["size"] < 4 << 20
    session = connect(remote)
    try:

        def rows_a_task(rows: int) -> list[int]:
            spark_plans.spread(session, rows)
            read = session.read.parquet(str(tmp_path / file["path"]))
            return sorted(row["count"] for row in read.groupBy(sf.spark_partition_id()).count().collect())

        assert rows_a_task(spark_plans.ROWS_UP_TO) == [4 * ROWS_A_GROUP]
        assert rows_a_task(spark_plans.ROWS_UP_TO + 1) == [2 * ROWS_A_GROUP] * 2
        assert rows_a_task(0) == [4 * ROWS_A_GROUP]
    finally:
        session.stop()


def test_rows_are_inserts_and_snapshots_less_deletes() -> None:
    def state(**by_op: int) -> CommittedTopic:
        return CommittedTopic("t", "id", 0, {}, by_op=by_op)

    assert spark_plans.rows_at_most([state(c=5, u=900, d=2), state(r=10, d=1)]) == 12
    assert spark_plans.rows_at_most([state(c=1, d=5)]) == 0
    assert spark_plans.rows_at_most([state(u=900, d=2)]) == 902
    assert spark_plans.rows_at_most([]) == 0
