"""What the full change semantics cost: `python -m benchmarks.full_semantics [--events 60000] [--cycles 5]`.

Beside the silver job, the same events are folded by the least that could be called a CDC merge: the rows of bronze above an
offset, `from_json`, the newest per key by (lsn, offset), one MERGE. No parts of rows, moves, TRUNCATE, quarantine, replays
or schema changes. Both in one Spark, the one first that was second before; the ratios are what counts.
Prints JSON lines: seconds and seconds of processor time. Exit 1 when the tables differ in the end.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from benchmarks.paired import Took, ratios, took
from benchmarks.spark_jobs import COLUMNS, events
from cdc_assets_tests.spark.jvm import spark_connect
from cdc_assets_tests.spark.lake import KAFKA
from spark import bronze, silver
from spark.identifiers import table_at
from spark.session import connect
from spark.specs import BronzeSpec, SilverSpec, TopicRange

FIELDS = "before struct<aid: int>, after struct<aid: int, bid: int, abalance: int, filler: string>"
DOCUMENT = f"{FIELDS}, op string, source struct<lsn: bigint, ts_us: bigint, txId: string>"


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=60_000, help="of the first load")
    parser.add_argument("--sizes", type=int, nargs="*", default=[1_000, 10_000], help="events per cycle")
    parser.add_argument("--cycles", type=int, default=5)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cdc-bench-") as folder:
        with spark_connect(Path(folder) / "spark", optimize=True) as (remote, _):
            session = connect(remote)
            try:
                return measure(chosen, session, Path(folder))
            finally:
                session.stop()


def measure(chosen: argparse.Namespace, session: SparkSession, folder: Path) -> int:
    """First loads, then cycles of each size."""
    feed = Feed(session, folder)
    spec = SilverSpec("bench", "accounts", feed.bronze, str(folder / "silver"), COLUMNS, ("aid",))
    simple = Simple(session, feed.bronze, str(folder / "simple"))
    at = feed.send("r", range(chosen.events))
    show("first load", chosen.events, [took(lambda: silver.run(session, spec))], [took(simple.load)])
    for size in chosen.sizes:
        full: list[Took] = []
        plain: list[Took] = []
        # Two more than count: the first of a size compile its plans.
        for number in range(chosen.cycles + 2):
            start, at = at, feed.send("u", random.sample(range(chosen.events), size))
            turns: list[tuple[list[Took], Callable[[], object]]] = [
                (full, lambda: silver.run(session, spec)),
                (plain, lambda start=start: simple.fold(start)),  # type: ignore[misc]
            ]
            for taken, work in turns if number % 2 else turns[::-1]:
                taken.append(took(work))
        show("cycle", size, full[2:], plain[2:])
    names = [c.name for c in COLUMNS]
    tables = [session.read.format("delta").load(path).select(names) for path in (spec.path, simple.path)]
    same = all(one.exceptAll(other).isEmpty() for one, other in (tables, tables[::-1]))
    print(json.dumps({"what": "tables", "rows": tables[0].count(), "same": same}))
    return 0 if same else 1


@dataclass
class Feed:
    """Events as Debezium writes them, in bronze, from a file instead of Kafka."""

    session: SparkSession
    folder: Path
    at: int = 0

    @property
    def bronze(self) -> str:
        """The change log."""
        return str(self.folder / "bronze")

    def send(self, op: str, keys: range | list[int]) -> int:
        """The offset behind them."""
        file, start = self.folder / "records.parquet", self.at
        pq.write_table(pa.Table.from_pylist([*self._records(events(op, keys, start))], schema=KAFKA), file)
        self.at += len(keys)
        topic = TopicRange("accounts", "bench.accounts", "id", 0, {0: (start, self.at)})
        spec = BronzeSpec(self.bronze, "none", (topic,), uuid.uuid4().hex)
        bronze.append(self.session, spec, lambda _: self.session.read.parquet(str(file)))
        return self.at

    def _records(self, sent: Iterable[tuple[str, str]]) -> Iterable[dict[str, object]]:
        at = datetime(2026, 1, 1, tzinfo=timezone.utc)
        for offset, (key, value) in enumerate(sent, self.at):
            place = {"topic": "bench.accounts", "partition": 0, "offset": offset, "timestamp": at, "headers": []}
            yield {**place, "key": key.encode(), "value": value.encode()}


@dataclass
class Simple:
    """The plain merge of the latest per key, and its table."""

    session: SparkSession
    bronze: str
    path: str

    def load(self) -> None:
        """Everything, into a new table."""
        newest = self._newest(0)
        rows = newest.where("op <> 'd'").select("row.*", "lsn", "offset")
        rows.write.format("delta").option("delta.dataSkippingStatsColumns", "aid").save(self.path)

    def fold(self, start: int) -> None:
        """What lies above an offset."""
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


def show(what: str, events: int, full: list[Took], plain: list[Took]) -> None:
    """One line of figures."""
    shown = {
        name: {"full": [round(getattr(t, name), 2) for t in full], "simple": [round(getattr(t, name), 2) for t in plain]}
        for name in Took._fields
    }
    load = round(os.getloadavg()[0], 1)
    print(json.dumps({"what": what, "events": events, **shown, "ratio": ratios(full, plain), "load": load}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
