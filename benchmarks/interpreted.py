"""From which batch on generated code pays: `python -m benchmarks.interpreted [--table 60000] [--cycles 6]`.

The silver job folds the same batches twice in one warmed-up Spark: with plans that are interpreted, and with plans that are
compiled to Java first (whole-stage code generation); the one first that was second before. Prints JSON lines: seconds, seconds of
processor time, and their ratios interpreted / compiled. The limits in spark/table/spark_plans.py were set by it (ADR 12).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from unittest.mock import patch

from benchmarks.full_semantics import Feed, Work, anew
from benchmarks.paired import Took, ratios, took
from benchmarks.spark_jobs import COLUMNS
from cdc_assets_tests.support.lake.jvm import spark_connect
from spark.silver import fold_job as silver
from spark.specs import SilverSpec
from spark.table import spark_plans
from spark.table.spark_session import connect

MODES = {"interpreted": sys.maxsize, "compiled": -1}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", type=int, default=60_000, help="rows of the table")
    parser.add_argument("--sizes", type=int, nargs="*", default=[100, 1_000, 5_000, 20_000, 60_000], help="events per cycle")
    parser.add_argument("--cycles", type=int, default=6, help="of each size, two at least")
    parser.add_argument("--warm-up", type=int, default=3, help="cycles of each size that do not count")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cdc-bench-") as folder:
        with spark_connect(Path(folder) / "spark", optimize=True) as (remote, _):
            measure(chosen, remote, Path(folder))


def measure(chosen: argparse.Namespace, remote: str, folder: Path) -> None:
    """First loads, then cycles of each size."""
    feed = Feed(connect(remote), folder)
    spec = SilverSpec("bench", "accounts", feed.bronze, str(folder / "silver"), COLUMNS, ("aid",))
    session = connect(remote)
    specs = [replace(spec, path=str(folder / name)) for name in MODES]
    works = [partial(limited, up_to, silver.run, session, one) for up_to, one in zip(MODES.values(), specs, strict=True)]
    feed.send("r", range(chosen.table))
    for work in works:
        work()
    loads = [partial(limited, up_to, anew, silver.run, session, spec) for up_to in MODES.values()]
    compared("first load", chosen.table, loads, chosen, lambda: None)
    for size in chosen.sizes:
        compared("cycle", size, works, chosen, partial(feed.updates, chosen.table, size))


def limited(up_to: int, work: Callable[..., object], *arguments: object) -> None:
    """The work, with every job above the limit compiled."""
    with patch.multiple(spark_plans, EVENTS_UP_TO=up_to, ROWS_UP_TO=up_to):
        work(*arguments)


def compared(what: str, events: int, works: list[Work], chosen: argparse.Namespace, before: Work) -> None:
    """Both in turns, printed."""
    taken: tuple[list[Took], list[Took]] = ([], [])
    for number in range(chosen.cycles + chosen.warm_up):
        before()
        for at in (0, 1) if number % 2 else (1, 0):
            taken[at].append(took(works[at]))
    figures = {name: round(median(one.wall for one in of), 2) for name, of in zip(MODES, taken, strict=True)}
    figures |= ratios(*(one[chosen.warm_up :] for one in taken))
    print(json.dumps({"what": what, "events": events, **figures}), flush=True)


if __name__ == "__main__":
    main()
