"""Reconciliation under pgbench's load: does it stay exact?

    python -m benchmarks.reconcile [--database mariadb] [--scale 10] [--runs 100] [--damage-every 8] [--rate 100] [--seconds 3300]

Starts PostgreSQL or MariaDB, one broker, Connect with Debezium and a Spark Connect server; captures pgbench's four tables
(benchmarks.reconcile_bank; scale 10: 1,000,000 accounts) and compares them again and again while they are written to and
bronze and silver follow. In every n-th run one damage is planted (benchmarks.reconcile_damage) and taken back afterwards:
exactly that one must be found. The other runs compare the large table, every tenth all four. One JSON line per run; exit 1
when a run reports what is not there, or misses what is.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
from pyspark.errors import PySparkException

from benchmarks.reconcile_bank import ACCOUNTS_PER_SCALE, FIRST, Bank, bank
from benchmarks.reconcile_damage import DAMAGES, accounts_of, planted
from cdc_assets.capture.log_position import carry_to_lake
from cdc_assets.clients.source_chain import Chain
from cdc_assets_tests.support.lake.jvm import spark_connect
from cdc_assets_tests.support.live.small_chain import SmallChain
from spark.proof.bucket_sums import Next, Task, digest, range_end, two_ranges
from spark.proof.key_order import KeyRange
from spark.proof.snapshot_cut import Cut
from spark.proof.table_at_cut import Base
from spark.specs import Column, SilverSpec
from spark.table.commit_metadata import Committed, Folded
from spark.table.spark_session import connect
from spark.values.sql_dialects import SHARES


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=["postgresql", "mariadb"], default="postgresql")
    parser.add_argument("--scale", type=int, default=10, help="pgbench's: 100,000 accounts each")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--damage-every", type=int, default=8)
    parser.add_argument("--rate", type=int, default=100, help="transactions/s of the load; 0: as many as go")
    parser.add_argument("--seconds", type=float, default=3300, help="no further run is started after that")
    parser.add_argument("--lake-rows", type=int, default=0, help="only: what the lake's side costs of a table of so many rows")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="reconcile-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        if chosen.lake_rows:
            for optimize in (True, False):
                with spark_connect(root / f"spark-{optimize}", optimize=optimize) as (remote, _):
                    _lake_cost(connect(remote), root / f"lake-{optimize}", chosen.lake_rows, compilers=1 + optimize)
            return 0
        with bank(chosen.database, root) as made, spark_connect(root / "spark", optimize=True) as (remote, _):
            made.fill(chosen.scale)
            tables = [*made.tables]
            made.live.capture(tables)
            with made.live.settings():
                chain = SmallChain(made.live, remote, root / "lake", made.live.source(tables), connect(remote))
                _load(chain)
                return _measure(chain, made, chosen)


def _load(chain: SmallChain) -> None:
    started = time.monotonic()
    carry_to_lake(Chain(chain.platform, chain.source), deadline=600)
    chain.advance(wait=False)
    print(json.dumps({"loaded_seconds": round(time.monotonic() - started, 1)}), flush=True)


def _measure(chain: SmallChain, made: Bank, chosen: argparse.Namespace) -> int:
    until, wrong, runs, damages, began = time.monotonic() + chosen.seconds, 0, 0, 0, time.monotonic()
    with made.load(chosen.rate), _following(chain) as turn:
        for number in range(chosen.runs):
            if time.monotonic() > until:
                break
            damaged = chosen.damage_every > 0 and number % chosen.damage_every == chosen.damage_every - 1
            wrong += not (_damaged(chain, turn, damages) if damaged else _plain(chain, number))
            damages += damaged
            runs += 1
    facts = {"database": chosen.database, "runs": runs, "damaged": damages, "wrong": wrong, "rate": chosen.rate}
    measured = {"minutes": round((time.monotonic() - began) / 60, 1), "load": os.getloadavg()[0]}
    print(json.dumps({**facts, "rows": chosen.scale * ACCOUNTS_PER_SCALE, **measured}), flush=True)
    return 1 if wrong else 0


def _lake_cost(session: Any, folder: Path, rows: int, *, compilers: int) -> None:
    """The digest of a silver table of so many accounts without news, of a range of its keys, and a plain read of it."""
    columns = (
        Column("aid", "integer", False),
        Column("bid", "integer"),
        Column("abalance", "integer"),
        Column("filler", "character(84)"),
    )
    spec = SilverSpec("bench", "accounts", str(folder / "none"), str(folder / "silver"), columns, ("aid",))
    session.range(rows).selectExpr(
        *("cast(id AS int) AS aid", "1 AS bid", "cast(id % 977 AS int) AS abalance", "rpad('', 84, ' ') AS filler"),
        "concat('0000.000000000198a350.1.000000000198a3b8.', lpad(hex(id), 16, '0')) AS _cdc_position",
        *("'c' AS _cdc_op", "current_timestamp() AS _cdc_source_ts", "cast(id % 100000 AS string) AS _cdc_tx_id"),
    ).write.format("delta").save(spec.path)
    task = Task(spec, Base(0, Folded(0, {}), Committed(0, {}), None, "none"), Cut(200_000, frozenset({150_000}), 1 << 60))
    after = (rows // 2,)

    def of_range() -> None:
        """What a run of the check asks: where the next range ends, and its sums."""
        end = range_end(session, Next(spec, 0, after, rows // SHARES))
        digest(session, replace(task, part=KeyRange(("aid",), after, end)))

    def of_two_ranges() -> None:
        """The same where no order of the key is known on both sides: its texts are put in order, and rows are asked for."""
        end = range_end(session, Next(spec, 0, ("5",), rows // SHARES // 2, by_text=True))
        two_ranges(
            session, task, [f"{key};" for key in range(after[0], after[0] + rows // SHARES)], KeyRange(("aid",), ("5",), end)
        )

    for name, work in (
        ("digest", lambda: digest(session, task)),
        ("range", of_range),
        ("two ranges", of_two_ranges),
        ("read", lambda: session.read.format("delta").load(spec.path).write.format("noop").mode("overwrite").save()),
    ):
        seconds, cpu = [], []
        for _ in range(3):
            started, before = time.perf_counter(), _cpu()
            work()
            seconds.append(round(time.perf_counter() - started, 2))
            cpu.append(round(_cpu() - before, 2))
        facts = {"lake": name, "rows": rows, "java_compilers": compilers, "seconds": seconds, "cpu_seconds": cpu}
        print(json.dumps({**facts, "load": os.getloadavg()[0]}), flush=True)


def _cpu() -> float:
    """What the JVM has used so far: on a shared machine more telling than seconds."""
    times = [child.cpu_times() for child in psutil.Process().children(recursive=True)]
    return sum(t.user + t.system for t in times)


def _plain(chain: SmallChain, number: int) -> bool:
    name = accounts_of(chain)
    results = chain.compare([] if number % 10 == 0 else [name])
    told = {table: r.sentence() for table, r in results.items() if not r.equal}
    accounts = results[name]
    facts = {"run": number, "rows": [r.silver_rows for r in results.values()], "seconds": dict(accounts.seconds)}
    for result in results.values():
        if not result.equal:
            print(json.dumps(result.to_json()), flush=True)
    print(json.dumps({**facts, "not_equal": told}), flush=True)
    return not told


def _damaged(chain: SmallChain, turn: threading.Lock, number: int) -> bool:
    """Silver stands still meanwhile, so that the damage can be taken back."""
    damage, key = DAMAGES[number % len(DAMAGES)], FIRST + 2 * number
    try:
        with turn, planted(chain, damage, key) as wanted:
            result = chain.compare([accounts_of(chain)])[accounts_of(chain)]
    except (AssertionError, PySparkException) as error:
        print(json.dumps({"planted": damage.name, "key": key, "right": False, "error": repr(error)[:600]}), flush=True)
        return False
    found = {d.key: (d.kind, d.where) for d in result.differences}
    told = {"planted": damage.name, "key": key, "found": found, "right": found == wanted}
    print(json.dumps({**told, "seconds": dict(result.seconds), "reason": result.reason}), flush=True)
    return found == wanted


@contextmanager
def _following(chain: SmallChain) -> Iterator[threading.Lock]:
    """Bronze and silver follow, as the sensors' runs would make them."""
    stop, turn = threading.Event(), threading.Lock()
    own = SmallChain(chain.live, chain.remote, chain.root, chain.source, connect(chain.remote), copier=chain.copier)

    def follow() -> None:
        while not stop.wait(2):
            with turn:
                own.advance(wait=False)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield turn
    finally:
        stop.set()
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
