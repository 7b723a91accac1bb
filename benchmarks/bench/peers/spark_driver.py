"""The process of the peers that work by a Spark of their own: one request a line on stdin, one answer a line on stdout.

`{"call": "iceberg" | "foreach-batch", "tables": [{"name", "topic", "read": {option: value}}, …]}` merges the records of each
topic into a table; `{"call": "totals", "of": …, "name": …}` tells its rows and the sum of their balances. An answer is
`{"result": …}` or `{"error": text}`. It ends with its stdin.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

CATALOG = "ice"
EVENT = "op STRING, before STRUCT<aid: INT>, after STRUCT<aid: INT, bid: INT, abalance: INT, filler: STRING>"
"""What a peer reads of an event, as a user would write it for this one table."""
_COLUMNS = ("aid", "bid", "abalance", "filler")
_TABLE = "aid INT, bid INT, abalance INT, filler STRING"
_THREADS = 3
_ICEBERG_SESSION = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": "zstd",
}
"""As this product's own sessions have it on two cores; by Spark's defaults Iceberg would be slower."""


def main() -> None:
    """Answer until stdin ends; the folder of the tables is the one argument."""
    folder = Path(sys.argv[1])
    # What else is printed, by Java's launcher too, must not stand between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    calls = _calls(folder)
    answers.write(json.dumps({"result": "ready"}) + "\n")
    answers.flush()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"result": calls[request.pop("call")](**request)}
        except Exception as error:  # noqa: BLE001 - the parent raises it
            answer = {"error": f"{type(error).__name__}: {str(error).strip()[:2000]}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _calls(folder: Path) -> Mapping[str, Callable[..., Any]]:
    from pyspark.sql import SparkSession

    defaults = SparkSession.builder.appName("peers of cdc bench").getOrCreate()
    defaults.sparkContext.setLogLevel("ERROR")
    tuned = defaults.newSession()
    for key, value in _ICEBERG_SESSION.items():
        tuned.conf.set(key, value)

    def totals(of: str, name: str) -> list[int]:
        of_iceberg = of == "iceberg"
        table = tuned.table(_iceberg_name(name)) if of_iceberg else defaults.read.format("delta").load(str(folder / name))
        row = table.selectExpr("count(*)", "coalesce(sum(abalance), 0)").collect()[0]
        return [int(row[0]), int(row[1])]

    return {
        "iceberg": lambda tables: _each(tables, lambda table: merge_iceberg(tuned, table)),
        "foreach-batch": lambda tables: _each(tables, lambda table: run_stream(defaults, folder, table)),
        "totals": totals,
    }


def _each(tables: Sequence[Mapping[str, Any]], work: Callable[[Mapping[str, Any]], None]) -> int:
    with ThreadPoolExecutor(_THREADS) as pool:
        return len(list(pool.map(work, tables)))


def newest(events: DataFrame) -> DataFrame:
    """Of each key the event with the highest offset: its op, and the row's columns."""
    from pyspark.sql import functions as f

    parsed = events.select(f.from_json(f.col("value").cast("string"), EVENT).alias("e"), "offset")
    key = f.coalesce("e.after.aid", "e.before.aid").alias("key")
    rows = parsed.where("e IS NOT NULL").groupBy(key).agg(f.max_by("e", "offset").alias("e"))
    return rows.select(f.col("key").alias("aid"), *(f.col(f"e.after.{c}") for c in _COLUMNS[1:]), f.col("e.op").alias("op"))


def merge_iceberg(session: SparkSession, table: Mapping[str, Any]) -> None:
    """The new records of one topic; a table that is not there yet is created of them, which is faster than a MERGE."""
    changes = newest(session.read.format("kafka").options(**table["read"]).load())
    name = _iceberg_name(table["name"])
    if not session.catalog.tableExists(name):
        changes.where("op <> 'd'").select(*_COLUMNS).writeTo(name).using("iceberg").create()
        return
    view = f"changes_{table['name']}"
    changes.createOrReplaceTempView(view)
    given = ", ".join(f"s.{c}" for c in _COLUMNS)
    session.sql(
        f"MERGE INTO {name} t USING {view} s ON t.aid = s.aid WHEN MATCHED AND s.op = 'd' THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{c} = s.{c}' for c in _COLUMNS)} "
        f"WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT ({', '.join(_COLUMNS)}) VALUES ({given})"
    )


def run_stream(session: SparkSession, folder: Path, table: Mapping[str, Any]) -> None:
    """All that the topic holds and the stream's checkpoint does not."""
    from delta.tables import DeltaTable

    path = str(folder / table["name"])
    columns: dict[str, str | Column] = {c: f"s.{c}" for c in _COLUMNS}

    def merge(batch: DataFrame, _: int) -> None:
        into = DeltaTable.forPath(session, path).alias("t").merge(newest(batch).alias("s"), "t.aid = s.aid")
        (
            into.whenMatchedDelete("s.op = 'd'")
            .whenMatchedUpdate(set=columns)
            .whenNotMatchedInsert("s.op <> 'd'", values=columns)
            .execute()
        )

    DeltaTable.createIfNotExists(session).location(path).addColumns(_schema()).execute()
    read = session.readStream.format("kafka").options(**table["read"]).load()
    stream = read.writeStream.foreachBatch(merge).option("checkpointLocation", f"{path}_checkpoint")
    stream.trigger(availableNow=True).start().awaitTermination()


def _schema() -> Any:
    from pyspark.sql.types import StructType

    return StructType.fromDDL(_TABLE)


def _iceberg_name(name: str) -> str:
    return f"{CATALOG}.bench.{name}"


if __name__ == "__main__":
    main()
