"""Random histories of a real PostgreSQL, captured live, folded anyhow: `python -m benchmarks.histories --count 200 --seed 1`.

Starts PostgreSQL, one broker and Connect with Debezium for the recording, then a Spark Connect server for the folds.
Prints one JSON line per table and one at the end; exit 1 when silver differs from PostgreSQL anywhere.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from cdc_assets_tests.histories.comparison import difference
from cdc_assets_tests.histories.recording import Recorded, load, record, save
from cdc_assets_tests.histories.replay import fold
from cdc_assets_tests.live_source import live_source
from cdc_assets_tests.spark.jvm import spark_connect
from cdc_assets_tests.spark.lake import Lake
from spark.session import connect


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="histories; each is a few rows of one table")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tables", type=int, default=8)
    parser.add_argument("--steps", type=int, default=60, help="statements per history")
    parser.add_argument("--batches", type=int, default=5, help="into how many batches a table's log is cut, about")
    parser.add_argument("--workers", type=int, default=2, help="tables that are folded at the same time")
    parser.add_argument("--save", type=Path, help="keep the recording")
    parser.add_argument("--load", type=Path, help="fold this recording instead of making one")
    parser.add_argument("--remote", help="a Spark Connect server that runs already")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="histories-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        recorded = load(chosen.load) if chosen.load else _record(chosen, root / "source")
        if chosen.save:
            save(chosen.save, recorded)
        if chosen.remote:
            return _fold(recorded, chosen, root, chosen.remote)
        with spark_connect(root / "spark", optimize=True) as (remote, _):
            return _fold(recorded, chosen, root, remote)


def _record(chosen: argparse.Namespace, folder: Path) -> list[Recorded]:
    folder.mkdir(mode=0o755)
    started = time.monotonic()
    with live_source(folder) as live:
        worlds = -(-chosen.count // chosen.tables)
        recorded = record(live, tables=chosen.tables, worlds=worlds, steps=chosen.steps, seed=chosen.seed)
    records = sum(len(log) for r in recorded for log in r.log.values())
    print(json.dumps({"recorded": records, "seconds": round(time.monotonic() - started, 1)}), flush=True)
    return recorded


def _fold(recorded: list[Recorded], chosen: argparse.Namespace, root: Path, remote: str) -> int:
    started = time.monotonic()
    lake, seed = Lake(connect(remote), root / "lake"), str(chosen.seed)
    specs = fold(lake, recorded, seed, remote=remote, batches=chosen.batches, workers=chosen.workers)
    found = {table.table: difference(lake, specs[table.table], table) for table in recorded}
    acts: Counter[str] = Counter()
    for table in recorded:
        acts.update(table.acts)
        facts = {"table": table.table, "histories": table.worlds, "rows": len(table.rows), "definitions": len(table.since)}
        print(json.dumps({**facts, "difference": found[table.table]}), flush=True)
    histories, differing = sum(r.worlds for r in recorded), [name for name, text in found.items() if text]
    total = {"histories": histories, "seed": chosen.seed, "tables": len(recorded), "differing": differing, "acts": acts}
    took = {"seconds": round(time.monotonic() - started, 1), "load": os.getloadavg()[0]}
    print(json.dumps({**total, **took}), flush=True)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
