"""Random histories of a real PostgreSQL, captured live, folded anyhow.

    python -m benchmarks.histories --count 80                     one round
    python -m benchmarks.histories --count 200 --rounds 5 --seed 1      1,000 histories, seeds 1 to 5

A round starts PostgreSQL, one broker and Connect with Debezium for the recording, and folds with a Spark Connect server
that serves all rounds. Time goes with tables and batches, hardly with the histories in a table.
Prints JSON lines: one per recording, table and round, and the total with what never happened. Exit 1 when silver differs from
PostgreSQL anywhere, or a round fails.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from cdc_assets_tests.support.histories.comparison import difference
from cdc_assets_tests.support.histories.play import ACTS
from cdc_assets_tests.support.histories.recording import Recorded, load, record, save
from cdc_assets_tests.support.histories.replay import fold
from cdc_assets_tests.support.histories.tables import KINDS
from cdc_assets_tests.support.lake.both_writers import compare_writers
from cdc_assets_tests.support.lake.jvm import spark_connect
from cdc_assets_tests.support.lake.lake import Lake
from cdc_assets_tests.support.live.live_source import live_source
from spark.table.spark_session import connect

WANTED = {*ACTS, "truncate", "add", "alter", "drop", "alter undone", "incremental", "blocking", "restart"}
"""What must have happened: statements, ends of transactions, DDL (`alter` is a wider type) and DDL undone, tables read again."""


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="histories in a round; each is a few rows of one table")
    parser.add_argument("--rounds", type=int, default=1, help="each with a database, topics and a seed of its own")
    parser.add_argument("--seed", type=int, default=1, help="of the first round; the others count on")
    parser.add_argument("--seconds", type=float, help="no round begins after that")
    parser.add_argument("--tables", type=int, default=4)
    parser.add_argument("--kinds", nargs="+", choices=sorted(KINDS), default=["toasted", "pair", "full", "plain"], help="in turn")
    parser.add_argument("--steps", type=int, default=60, help="statements per history")
    parser.add_argument("--batches", type=int, default=5, help="into how many batches a table's log is cut, about")
    parser.add_argument("--workers", type=int, default=2, help="tables that are folded at the same time")
    parser.add_argument("--save", type=Path, help="a folder that keeps the recordings, as SEED.json.gz")
    parser.add_argument("--load", type=Path, nargs="+", help="fold these recordings instead of making some")
    parser.add_argument("--remote", help="a Spark Connect server that runs already")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="histories-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        if chosen.remote:
            return _rounds(chosen, root, chosen.remote)
        with spark_connect(root / "spark", optimize=True) as (remote, _):
            return _rounds(chosen, root, remote)


def _rounds(chosen: argparse.Namespace, root: Path, remote: str) -> int:
    started, acts, differing, failed, histories = time.monotonic(), Counter[str](), [], [], 0
    seeds: Sequence[Any] = chosen.load or range(chosen.seed, chosen.seed + chosen.rounds)
    done: list[str] = []
    for seed in seeds:
        if chosen.seconds is not None and time.monotonic() - started > chosen.seconds:
            break
        name = str(seed).rpartition("/")[2].removesuffix(".json.gz")
        folder = root / name
        folder.mkdir(mode=0o755)
        done.append(name)
        try:
            recorded = load(seed) if chosen.load else _record(chosen, folder / "source", int(seed))
            histories += sum(r.worlds for r in recorded)
            differing += [f"{name}/{table}" for table in _fold(recorded, chosen, folder, remote, name)]
            for table in recorded:
                acts.update(table.acts)
        except Exception as error:  # noqa: BLE001
            # A round that breaks is no reason not to see the others.
            failed.append(name)
            traceback.print_exc()
            _say({"seed": name, "failed": f"{type(error).__name__}: {str(error)[:500]}"})
    missing = sorted(WANTED - {*acts})
    total = {"histories": histories, "seeds": done, "differing": differing, "failed": failed, "acts": dict(sorted(acts.items()))}
    _say({"total": {**total, "never": missing, "seconds": round(time.monotonic() - started, 1)}})
    return 1 if differing or failed else 0


def _record(chosen: argparse.Namespace, folder: Path, seed: int) -> list[Recorded]:
    folder.mkdir(mode=0o755)
    started = time.monotonic()
    with live_source(folder) as live:
        kinds = [*islice(cycle(chosen.kinds), chosen.tables)]
        recorded = record(live, kinds=kinds, worlds=-(-chosen.count // chosen.tables), steps=chosen.steps, seed=seed)
    if chosen.save:
        chosen.save.mkdir(parents=True, exist_ok=True)
        save(chosen.save / f"{seed}.json.gz", recorded)
    records = sum(len(log) for r in recorded for log in r.log.values())
    _say({"seed": seed, "recorded": records, "seconds": round(time.monotonic() - started, 1)})
    return recorded


def _fold(recorded: list[Recorded], chosen: argparse.Namespace, root: Path, remote: str, seed: str) -> list[str]:
    """The tables that differ."""
    started, session = time.monotonic(), connect(remote)
    lake = Lake(session, root / "lake")
    specs = fold(lake, recorded, seed, remote=remote, batches=chosen.batches, workers=chosen.workers)
    found = {table.table: difference(lake, specs[table.table], table) for table in recorded}
    compare_writers(lake)
    for table in recorded:
        facts = {"table": table.table, "histories": table.worlds, "rows": len(table.rows), "definitions": len(table.since)}
        _say({"seed": seed, **facts, "difference": found[table.table]})
    differing = [name for name, text in found.items() if text]
    took = {"seconds": round(time.monotonic() - started, 1), "load": round(os.getloadavg()[0], 1)}
    _say({"seed": seed, "histories": sum(r.worlds for r in recorded), "differing": differing, **took})
    return differing


def _say(facts: dict[str, Any]) -> None:
    print(json.dumps(facts, default=str), flush=True)


if __name__ == "__main__":
    sys.exit(main())
