"""What a comparison costs at the source, in plain count(*) of the same table: the whole digest, and a share of it.

    python -m benchmarks.source_cost [--rows 1000000] [--runs 5]

PostgreSQL and MariaDB of its own, tables of pgbench's accounts with keys of each kind, one backend, everything in memory. One
JSON line per table: the backend's processor time of one run, the mean of `runs`, and both in count(*). The check compares a
share of each table above `reconciliation.max_rows` (docs/reconciliation.md); nothing but the databases is started.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from cdc_assets.assets.silver import silver_spec
from cdc_assets.registry.models import Source, Table
from cdc_assets.resources.databases.cuts import open_cut
from cdc_assets.resources.platform import Platform
from cdc_assets_tests.live_source import NAME
from cdc_assets_tests.mariadb_server import PASSWORD, mariadb_server
from cdc_assets_tests.own_server import own_server
from spark.reconcile.dialect import SHARES
from spark.reconcile.row_text import RowText

_REST = "bid int, abalance int, filler char(84)"
# name: (the key's columns, its values by PostgreSQL and by MariaDB of a number i)
KEYS = {
    "whole": ("aid int PRIMARY KEY", "i", "seq"),
    "pair": ("a int, b bigint, PRIMARY KEY (a, b)", "i % 1000, i", "seq % 1000, seq"),
    "uuid": ("id uuid PRIMARY KEY", "md5(i::text)::uuid", "INSERT(INSERT(MD5(seq), 13, 1, '4'), 17, 1, '8')"),
    "text": ("code varchar(40) PRIMARY KEY", "'code-' || i", "CONCAT('code-', seq)"),
}


def main() -> int:
    """The exit code: 1 where a share of a table with a key of numbers costs two count(*) or more."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=20)
    chosen = parser.parse_args()
    dear = False
    for place in (_postgresql, _mariadb):
        with tempfile.TemporaryDirectory(prefix="source-cost-") as folder, place(Path(folder), chosen.rows) as source:
            for table in source.tables:
                facts = _measured(source, table, chosen.runs)
                dear |= table.id.table in ("whole", "pair") and facts["share_in_counts"] >= 2
                print(json.dumps({"rows": chosen.rows, **facts, "load": round(os.getloadavg()[0], 1)}), flush=True)
    return 1 if dear else 0


def _measured(source: Source, table: Table, runs: int) -> dict[str, Any]:
    database = Platform().database(source)
    text = RowText(silver_spec("none", source, table, database.tables([table.id])[table.id]))
    with open_cut(database, statement_timeout=600) as cut:
        cursor: Any = getattr(cut, "cursor", None) or cut.connection  # type: ignore[attr-defined]
        if source.database.kind == "postgresql":
            server = psutil.Process(cursor.execute("SELECT pg_backend_pid()").fetchone()[0])
        else:
            (server,) = (p for p in psutil.Process().children() if p.name() == "mariadbd")

        def count() -> None:
            cursor.execute(f"SELECT count(*) FROM {table.id.schema}.{table.id.table}")
            cursor.fetchall() if hasattr(cursor, "fetchall") else None

        share = iter(range(1_000_000))
        counted = _mean(server, count, runs)
        one = _mean(server, lambda: cut.digest(table.id, text, (next(share) % SHARES, SHARES)), runs)
        whole = _mean(server, lambda: cut.digest(table.id, text, (0, 1)), max(2, runs // 5))
    return {
        "database": source.database.kind,
        "key": table.id.table,
        **{"count_ms": round(counted * 1000, 1), "share_ms": round(one * 1000, 1), "whole_ms": round(whole * 1000, 1)},
        **{"shares": SHARES, "share_in_counts": round(one / counted, 2), "whole_in_counts": round(whole / counted, 1)},
    }


def _mean(server: psutil.Process, act: Callable[[], object], runs: int) -> float:
    """Seconds of the server's processor time: other work on the machine does not count."""

    act()
    before = sum(server.cpu_times()[:2])
    for _ in range(runs):
        act()
    return (sum(server.cpu_times()[:2]) - before) / runs


@contextmanager
def _postgresql(folder: Path, rows: int) -> Iterator[Source]:
    folder.chmod(0o755)
    password = "cost"
    with own_server(folder, password=password) as server:
        for name, (columns, values, _) in KEYS.items():
            server.run(
                f"CREATE TABLE {name} ({columns}, {_REST})",
                f"INSERT INTO {name} SELECT {values}, i % 10, i, '' FROM generate_series(1, {rows}) i",
            )
        with server.connection() as connection:
            connection.autocommit = True
            connection.execute("VACUUM ANALYZE")
        port = server.postgres.site.ports["postgres"]
        with _secret(password):
            yield _source("postgresql", port, NAME, "public", dbname=NAME)


@contextmanager
def _mariadb(folder: Path, rows: int) -> Iterator[Source]:
    with mariadb_server(folder, "--innodb-buffer-pool-size=1G") as server:
        server.execute("CREATE DATABASE cost")
        for name, (columns, _, values) in KEYS.items():
            server.execute(
                f"CREATE TABLE cost.{name} ({columns}, {_REST})",
                f"INSERT INTO cost.{name} SELECT {values}, seq % 10, seq, '' FROM cost.seq_1_to_{rows}",
                f"ANALYZE TABLE cost.{name}",
            )
        with _secret(PASSWORD):
            yield _source("mariadb", server.port, "cdc", "cost")


@contextmanager
def _secret(password: str) -> Iterator[None]:
    os.environ["CDC_SECRET_COST"] = password
    try:
        yield
    finally:
        del os.environ["CDC_SECRET_COST"]


def _source(kind: str, port: int, user: str, schema: str, **more: str) -> Source:
    database = {"kind": kind, "host": "127.0.0.1", "port": port, "user": user, "password": {"secret": "cost"}, **more}
    tables = [{"name": f"{schema}.{name}"} for name in KEYS]
    return Source.model_validate({"source": "cost", "database": database, "tables": tables})


if __name__ == "__main__":
    sys.exit(main())
