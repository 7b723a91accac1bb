"""What a run of a history (SCD2) costs by the size of bronze and of the batch: `python -m benchmarks.scd2`.

Per size of bronze: the history is made from all of it, then goes on by batches of updates of random keys. What a run costs
should go with the batch; reading bronze alone is told beside it. Seconds, and seconds of processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.full_semantics import Feed
from benchmarks.paired import Took, took
from benchmarks.spark_jobs import COLUMNS
from cdc_assets_tests.support.lake.jvm import spark_connect
from spark.silver import history_job as history
from spark.specs import SilverSpec
from spark.table.spark_session import connect

CHUNK = 100_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bronze", type=int, nargs="*", default=[100_000, 1_000_000], help="events in bronze before the batches")
    parser.add_argument("--keys", type=int, default=50_000)
    parser.add_argument("--sizes", type=int, nargs="*", default=[100, 1_000], help="events per batch")
    parser.add_argument("--cycles", type=int, default=5)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cdc-bench-") as folder:
        with spark_connect(Path(folder) / "spark", optimize=True) as (remote, _):
            for size in chosen.bronze:
                measure(chosen, connect(remote), Path(folder) / str(size), size)


def measure(chosen: argparse.Namespace, session: SparkSession, folder: Path, bronze: int) -> None:
    """One size of bronze: every key is inserted once and updated evenly after that."""
    folder.mkdir()
    feed = Feed(session, folder)
    for start in range(0, bronze, CHUNK):
        count = min(CHUNK, bronze - start)
        keys = [(start + i) % chosen.keys for i in range(count)]
        feed.send("c" if start + count <= chosen.keys else "u", keys)
    spec = SilverSpec("bench", "accounts", feed.bronze, str(folder / "history"), COLUMNS, ("aid",))
    first = took(lambda: history.run(session, spec))
    events = session.read.format("delta").load(spec.bronze_path)
    plain = took(lambda: events.write.format("noop").mode("overwrite").save())
    show("from all of bronze", bronze, bronze, [first], plain)
    for size in chosen.sizes:
        taken = []
        # One more than counts: the first of a size compiles its plans.
        for _ in range(chosen.cycles + 1):
            feed.send("u", random.sample(range(chosen.keys), size))
            taken.append(took(lambda: history.run(session, spec)))
        show("goes on", bronze, size, taken[1:], plain)


def show(what: str, bronze: int, batch: int, taken: list[Took], plain: Took) -> None:
    figures = {"bronze": bronze, "batch": batch, "seconds": [round(each.wall, 2) for each in taken]}
    medians = {name: round(statistics.median(getattr(each, name) for each in taken), 2) for name in Took._fields}
    told = {"what": what, **figures, **medians, "bronze_read": round(plain.cpu, 2), "load": round(os.getloadavg()[0], 1)}
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
