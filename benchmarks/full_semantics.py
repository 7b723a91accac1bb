"""What the full change semantics cost: `python -m benchmarks.full_semantics [--events 60000] [--cycles 5]`.

Beside the silver job, the same events are folded by the least that could be called a CDC merge: the rows of bronze above an
offset, `from_json`, the newest per key by (lsn, offset), one MERGE. No parts of rows, moves, TRUNCATE, quarantine, replays
or schema changes. Both in one Spark, the one first that was second before; the ratio of the medians is what counts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from benchmarks.spark_jobs import COLUMNS, events
from cdc_assets_tests.spark.capture import Record
from cdc_assets_tests.spark.jvm import spark_connect
from cdc_assets_tests.spark.lake import Lake
from spark import silver
from spark.identifiers import table_at
from spark.session import connect

FIELDS = "before struct<aid: int>, after struct<aid: int, bid: int, abalance: int, filler: string>"
DOCUMENT = f"{FIELDS}, op string, source struct<lsn: bigint, ts_us: bigint, txId: string>"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=60_000, help="of the first load")
    parser.add_argument("--sizes", type=int, nargs="*", default=[1_000, 10_000], help="events per cycle")
    parser.add_argument("--cycles", type=int, default=5)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cdc-bench-") as folder:
        with spark_connect(Path(folder) / "spark", optimize=True) as (remote, _):
            measure(chosen, connect(remote), Path(folder))


def measure(chosen: argparse.Namespace, session: SparkSession, folder: Path) -> None:
    feed, lake = Feed(Lake(session, folder / "lake")), folder / "simple"
    spec = feed.lake.spec("accounts", COLUMNS, ("aid",))
    simple = Simple(session, spec.bronze_path, str(lake))
    at = feed.send("r", range(chosen.events))
    first = [timed(lambda: silver.run(session, spec)), timed(simple.load)]
    show("first load", chosen.events, [first[0]], [first[1]])
    for size in chosen.sizes:
        full: list[float] = []
        plain: list[float] = []
        # One more than counts: the first of a size compiles its plans.
        for number in range(chosen.cycles + 1):
            start, at = at, feed.send("u", random.sample(range(chosen.events), size))
            turns: list[tuple[list[float], Callable[[], object]]] = [
                (full, lambda: silver.run(session, spec)),
                (plain, lambda start=start: simple.fold(start)),  # type: ignore[misc]
            ]
            for taken, work in turns if number % 2 else turns[::-1]:
                taken.append(timed(work))
        show("cycle", size, full[1:], plain[1:])
    names = [c.name for c in COLUMNS]
    tables = [session.read.format("delta").load(path).select(names) for path in (spec.path, simple.path)]
    for one, other in (tables, tables[::-1]):
        assert one.exceptAll(other).isEmpty()


@dataclass
class Feed:
    """Events as Debezium writes them, in bronze."""

    lake: Lake
    at: int = 0

    def send(self, op: str, keys: range | list[int]) -> int:
        """The offset behind them."""
        self.lake.log = {"accounts": {0: [Record(self.at + i, *event) for i, event in enumerate(events(op, keys, self.at))]}}
        start, self.at = self.at, self.at + len(keys)
        self.lake.append(self.lake.ranges("accounts", {0: self.at}, start=start))
        return self.at


@dataclass
class Simple:
    """The plain merge of the latest per key, and its table."""

    session: SparkSession
    bronze: str
    path: str

    def load(self) -> None:
        newest = self._newest(0)
        rows = newest.where("op <> 'd'").select("row.*", "lsn", "offset")
        rows.write.format("delta").option("delta.dataSkippingStatsColumns", "aid").save(self.path)

    def fold(self, start: int) -> None:
        self._newest(start).createOrReplaceTempView("newest")
        names = [c.name for c in COLUMNS]
        self.session.sql(
            f"MERGE INTO {table_at(self.path)} t USING newest s ON t.aid = s.aid "
            "WHEN MATCHED AND s.op = 'd' THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{n} = s.row.{n}' for n in names)}, t.lsn = s.lsn, t.offset = s.offset "
            f"WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT ({', '.join(names)}, lsn, offset) "
            f"VALUES ({', '.join(f's.row.{n}' for n in names)}, s.lsn, s.offset)"
        ).collect()

    def _newest(self, start: int) -> DataFrame:
        bronze = self.session.read.format("delta").load(self.bronze).where(sf.col("table") == "accounts")
        rows = bronze.where((sf.col("offset") >= start) & sf.col("value").isNotNull())
        read = rows.select("offset", sf.from_json(sf.col("value").cast("string"), DOCUMENT).alias("v"))
        flat = read.select("offset", sf.coalesce("v.after.aid", "v.before.aid").alias("aid"), "v.op", "v.source.lsn", "v.after")
        newest = sf.max_by(sf.struct("op", "lsn", "offset", sf.col("after").alias("row")), sf.struct("lsn", "offset"))
        return flat.groupBy("aid").agg(newest.alias("n")).select("aid", "n.*")


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def show(what: str, events: int, full: list[float], plain: list[float]) -> None:
    ratio = statistics.median(full) / statistics.median(plain)
    paired = statistics.median(f / p for f, p in zip(full, plain, strict=True))
    shown = {"events": events, "full": [round(x, 2) for x in full], "simple": [round(x, 2) for x in plain]}
    print(json.dumps({"what": what, **shown, "ratio": round(ratio, 2), "paired": round(paired, 2), "load": os.getloadavg()[0]}))


if __name__ == "__main__":
    main()
