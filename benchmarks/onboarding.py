"""Tables taken into a running connector under writers, with a kill -9 somewhere:
`python -m benchmarks.onboarding --route incremental --count 20 --seed 1` (`--kind mariadb`, and `mysql` with
a mysqld on the PATH: without route blocking).

Starts the database, one broker and Connect with Debezium. Each table is taken in by a process of its own while others
write to it; at a random moment of a random step that process, Connect, the broker or the database is killed, and the
onboarding is resumed. In the end a Spark Connect server folds every topic: silver must be what a SELECT finds.
Prints a JSON line per table and one at the end; exit 1 when a table differs.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cdc_assets.capture.onboarding.onboarding_run import ROUTES
from cdc_assets_tests.support.lake.jvm import spark_connect
from cdc_assets_tests.support.lake.lake import ID_V, Lake, values
from cdc_assets_tests.support.live.live_binlog import LiveBinlog
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb
from cdc_assets_tests.support.live.live_mysql import LiveMySql
from cdc_assets_tests.support.live.live_source import LiveSource, Part, live_source
from cdc_assets_tests.support.onboarding.drive import cdc, kill_at
from cdc_assets_tests.support.onboarding.ground import Ground, Writers, ground
from cdc_assets_tests.support.servers.binlog_server import BinlogServer
from cdc_assets_tests.support.servers.mariadb_server import mariadb_server
from cdc_assets_tests.support.servers.mysql_server import mysql_server
from cdc_assets_tests.support.servers.mysql_worker import mysql_worker
from spark.specs import Column

NAME = "shop"
OLD = f"{NAME}_old"
BATCH = 10_000
VICTIMS = {"cdc": 10, "core-connect": 5, "core-kafka": 2, "database": 3}
COLUMNS = {
    "postgresql": ID_V,
    "mysql": ID_V,
    "mariadb": (Column("id", "int(11)", False, dialect="mariadb"), Column("v", "varchar(100)", dialect="mariadb")),
}


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--route", choices=[route for route in ROUTES if route != "offboard"], default="incremental")
    parser.add_argument("--kind", choices=[*COLUMNS], default="postgresql")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=int, default=3000, help="rows of each table at the beginning")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no table after so long")
    parser.add_argument("--victims", nargs="*", default=[*VICTIMS], choices=[*VICTIMS, "nobody"])
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="onboarding-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        (root / "live").mkdir(mode=0o755)
        began = time.monotonic()
        with _database(chosen.kind, root) as live, ground(live, root / "sources", NAME) as own:
            done = [_one(own, chosen, n) for n in range(chosen.count) if time.monotonic() - began < chosen.seconds]
            topics, prefix = own.live.delivered(seconds=300), f"{NAME}.{own.schema}."
            delivered = {topic.removeprefix(prefix): found for topic, found in topics.items()}
            expected = {table: own.rows(table) for table in [*(d["table"] for d in done), OLD]}
        with spark_connect(root / "spark") as (remote, _):
            differing = _folded(remote, root, delivered, expected, chosen.kind)
    total = {
        "kind": chosen.kind,
        "route": chosen.route,
        "seed": chosen.seed,
        "tables": len(done),
        "killed": sum(d["killed"] is not None for d in done),
    }
    print(json.dumps({**total, "differing": differing, "seconds": round(time.monotonic() - began, 1)}), flush=True)
    return 1 if differing else 0


@contextmanager
def _database(kind: str, root: Path) -> Iterator[LiveSource | LiveBinlog]:
    with live_source(root / "live") as live:
        if kind == "postgresql":
            yield live
            return
        (root / kind).mkdir(mode=0o755)
        if kind == "mysql":
            with mysql_worker(live) as own, mysql_server(root / kind) as mysql:
                yield LiveMySql(mysql, own)
            return
        with mariadb_server(root / kind) as server:
            yield LiveMariaDb(server, live)


def _one(own: Ground, chosen: argparse.Namespace, number: int) -> dict[str, Any]:
    choice = random.Random(f"{chosen.seed}/{chosen.route}/{number}")
    table = f"{chosen.route}_{number}"
    own.create(table, chosen.rows)
    step = choice.choice(ROUTES[chosen.route]).name
    victim = choice.choices(chosen.victims, [VICTIMS.get(v, 1) for v in chosen.victims])[0]
    began, killed = time.monotonic(), None
    with Writers(own.live, [table, OLD], chosen.rows * 2, seed=number) as writers:
        command = ("onboard", NAME, f"{own.schema}.{table}", "--route", chosen.route, "-o", "json")
        first = cdc(*command)
        if victim == "cdc":
            killed = step if kill_at(first, NAME, step, after=choice.random()) else None
        elif victim != "nobody":
            killed = step if _kill_part(own.live, first, victim, step, choice.random()) else None
        steps, attempts = _until_done(own, first, command)
    seconds = {name: facts["step_seconds"] for name, facts in steps.items()}
    facts = {
        "table": table,
        "victim": victim,
        "killed": killed,
        "attempts": attempts,
        "seconds": round(time.monotonic() - began, 1),
    }
    shown = {
        **facts,
        "transactions": writers.transactions,
        "steps": seconds,
        "stopped": steps.get("go-on", {}).get("stopped_seconds"),
    }
    print(json.dumps(shown), flush=True)
    return shown


def _until_done(own: Ground, process: subprocess.Popen[str], command: tuple[str, ...]) -> tuple[dict[str, Any], int]:
    """What its last process says of its steps (nothing, where the one before had finished); the same again until it is done."""
    for attempt in range(1, 6):
        out, err = process.communicate(timeout=400)
        if process.returncode == 0:
            return json.loads(out)["steps"], attempt
        print(err.strip().splitlines()[-1:] if err else "killed", file=sys.stderr, flush=True)
        process = cdc(*command)
    raise AssertionError(f"not done after 5 attempts: {err}\n{own.file.read_text()}")


def _kill_part(live: LiveSource | LiveBinlog, process: subprocess.Popen[str], victim: str, step: str, after: float) -> bool:
    """Kill a component so long after the step has begun, and start it again."""
    file = live.home.root / "source-state" / f"{NAME}.json"
    part = _database_part(live) if victim == "database" else live.parts[victim]
    while process.poll() is None:
        running = json.loads(file.read_text())["state"].get("onboarding", {}).get("running") if file.is_file() else None
        if running is not None and running["current"] == step:
            time.sleep(after)
            part.kill()
            time.sleep(0.5)
            part.start()
            return True
        time.sleep(0.005)
    return False


def _database_part(live: LiveSource | LiveBinlog) -> Part | BinlogServer:
    return live.server if isinstance(live, LiveBinlog) else live.parts["postgres"]


def _folded(
    remote: str, root: Path, delivered: dict[str, Any], expected: dict[str, list[dict[str, Any]]], kind: str
) -> dict[str, str]:
    from spark.table.spark_session import connect

    lake = Lake(connect(remote), root / "lake", form=("debezium-json", kind))
    for table in expected:
        for partition, records in delivered[table].items():
            lake.put(table, *records, partition=partition)
        end = lake.all_of(table).ranges[0][1]
        for cut in (*range(BATCH, end, BATCH), end):  # a batch goes to the server as one local relation
            lake.append(lake.ranges(table, {0: cut}))
    differing = {}
    for table, rows in expected.items():
        spec = lake.spec(table, COLUMNS[kind])
        lake.fold(spec)
        found = {row["id"]: row["v"] for row in values(spec.path)}
        wanted = {row["id"]: row["v"] for row in rows}
        if found != wanted:
            wrong = [k for k in {*found, *wanted} if found.get(k) != wanted.get(k)]
            differing[table] = f"{len(wrong)} of {len(wanted)} rows, such as {wrong[:3]}"
            for key in wrong[:3]:
                print(f"{table} {key}: silver {found.get(key)}, table {wanted.get(key)}", file=sys.stderr)
                _told(delivered[table], key)
    return differing


def _told(partitions: dict[int, Any], key: int) -> None:
    """The last records of a key, for who looks for the reason."""
    for partition, records in partitions.items():
        mine = [record for record in records if json.loads(record.key or "{}").get("id") == key]
        for record in mine[-8:]:
            event = json.loads(record.value or "null") or {}
            source = event.get("source", {})
            facts = {name: source.get(name) for name in ("lsn", "sequence", "txId", "file", "pos", "row", "snapshot", "ts_us")}
            print(partition, record.offset, event.get("op"), event.get("after"), facts, record.headers, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
