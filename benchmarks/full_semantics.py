"""What the full change semantics cost: `python -m benchmarks.full_semantics [--events 60000] [--cycles 8] [--at-most 1.25]`.

Beside the silver job, the same events are folded by the simple case (benchmarks.simple_silver): both in one Spark, the one first
that was second before; the ratios are what counts. In the end come deletes with tombstones, rows made again and a replay of what
was there before, and both tables are compared.
Prints JSON lines: seconds and seconds of processor time. Exit 1 when the tables differ in the end, or where first loads or cycles
cost more processor time than `--at-most` times the simple case.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks import simple_silver
from benchmarks.paired import Took, ratios, took
from benchmarks.spark_jobs import COLUMNS, events
from cdc_assets_tests.support.lake.jvm import spark_connect
from spark.bronze import append_job as bronze
from spark.bronze.range_reader import SCHEMA
from spark.silver import fold_job as silver
from spark.specs import BronzeSpec, SilverSpec, TopicRange
from spark.table.spark_session import connect

Work = Callable[[], object]
AT_MOST = 1.25
KEPT = 100_000


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=60_000, help="of the first load")
    parser.add_argument("--sizes", type=int, nargs="*", default=[1_000, 10_000], help="events per cycle")
    parser.add_argument("--cycles", type=int, default=8, help="two at least")
    parser.add_argument(
        "--warm-up", type=int, default=4, help="cycles of each size that do not count: the first compile its plans"
    )
    parser.add_argument("--at-most", type=float, default=AT_MOST, help="of the simple case's processor time")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cdc-bench-") as folder:
        with spark_connect(Path(folder) / "spark", optimize=True) as (remote, _):
            session = connect(remote)
            try:
                return measure(chosen, session, Path(folder))
            finally:
                session.stop()


def measure(chosen: argparse.Namespace, session: SparkSession, folder: Path) -> int:
    """First loads, then cycles of each size, then what must be the same."""
    feed = Feed(session, folder)
    spec = SilverSpec("bench", "accounts", feed.bronze, str(folder / "silver"), COLUMNS, ("aid",))
    plainly = replace(spec, path=str(folder / "simple"))
    both = (lambda: silver.run(session, spec), lambda: simple_silver.run(session, plainly))
    feed.send("r", range(chosen.events))
    for work in both:
        work()
    loads = [partial(anew, job, session, spec) for job in (silver.run, simple_silver.run)]
    dear = compared("first load", chosen.events, loads, chosen, lambda: None)
    for size in chosen.sizes:
        dear |= compared("cycle", size, both, chosen, partial(feed.updates, chosen.events, size))
    some = random.sample(range(chosen.events), chosen.events // 10)
    for send in (lambda: feed.send("d", some), lambda: feed.send("c", some[::2]), lambda: feed.again(chosen.events // 2)):
        send()
        for work in both:
            work()
    names = [c.name for c in COLUMNS]
    tables = [session.read.format("delta").load(path).select(names) for path in (spec.path, plainly.path)]
    same = all(one.exceptAll(other).isEmpty() for one, other in (tables, tables[::-1]))
    rows, expected = tables[0].count(), chosen.events - len(some) + len(some[::2])
    print(json.dumps({"what": "tables", "rows": rows, "expected": expected, "same": same}))
    return 0 if same and rows == expected and not dear else 1


def compared(what: str, events: int, works: Sequence[Work], chosen: argparse.Namespace, before: Callable[[], None]) -> bool:
    """Both in turns; whether the full one costs too much."""
    full: list[Took] = []
    plain: list[Took] = []
    turns = [*zip((full, plain), works, strict=True)]
    for number in range(chosen.cycles + chosen.warm_up):
        before()
        for taken, work in turns if number % 2 else turns[::-1]:
            taken.append(took(work))
    counted = full[chosen.warm_up :], plain[chosen.warm_up :]
    show(what, events, *counted)
    return ratios(*counted)["cpu_paired"] > chosen.at_most


def anew(job: Callable[[SparkSession, SilverSpec], object], session: SparkSession, spec: SilverSpec) -> None:
    """The job where no table is yet."""
    path = f"{spec.path}-{uuid.uuid4().hex}"
    job(session, replace(spec, path=path))
    shutil.rmtree(path)


@dataclass
class Feed:
    """Events as Debezium writes them, in bronze, from a file instead of Kafka."""

    session: SparkSession
    folder: Path
    at: int = 0
    sent: int = 0
    kept: list[tuple[str, str | None]] = field(default_factory=list)

    @property
    def bronze(self) -> str:
        """The change log."""
        return str(self.folder / "bronze")

    def send(self, op: str, keys: range | list[int]) -> None:
        """An event per key, deletes with their tombstones."""
        records: list[tuple[str, str | None]] = []
        for key, value in events(op, keys, self.sent):
            if op == "d":
                records += [(key, value), (key, None)]
            else:
                records.append((key, value))
        self.sent += len(keys)
        self.kept = [*self.kept, *records[: KEPT - len(self.kept)]]
        self._append(records)

    def updates(self, keys: int, number: int) -> None:
        """Of so many of these keys."""
        self.send("u", random.sample(range(keys), number))

    def again(self, number: int) -> None:
        """The first records once more, as a connector sends them that was killed before it noted where it was."""
        self._append(self.kept[:number])

    def _append(self, sent: list[tuple[str, str | None]]) -> None:
        file, start, at = self.folder / "records.parquet", self.at, datetime(2026, 1, 1, tzinfo=timezone.utc)
        rows = [
            {
                **{"topic": "bench.accounts", "partition": 0, "offset": offset, "timestamp": at, "headers": []},
                **{"key": key.encode(), "value": None if value is None else value.encode()},
            }
            for offset, (key, value) in enumerate(sent, start)
        ]
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), file)
        self.at += len(sent)
        topic = TopicRange("accounts", "bench.accounts", "id", 0, {0: (start, self.at)})
        spec = BronzeSpec(self.bronze, "none", (topic,), uuid.uuid4().hex)
        bronze.append(self.session, spec, lambda _: self.session.read.parquet(str(file)))


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
