"""What a comparison costs at the source, in plain count(*) of the same table: a range of its keys, a share, the whole digest.

    python -m benchmarks.source_cost [--rows 1000000] [--runs 20] [--database mariadb]

PostgreSQL and MariaDB of its own, tables of pgbench's accounts with keys of each kind, one backend, everything in memory. One
JSON line per table: the backend's processor time of one run, the mean of `runs`, and all in count(*). Of each table above
`reconciliation.max_rows` the check compares a range of keys, and a share where their order is not known on both sides
(docs/reconciliation.md); nothing but the databases is started.
"""

from __future__ import annotations

import argparse
import itertools
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
from spark.reconcile.key_order import KeyRange
from spark.reconcile.row_text import RowText

_FACTS = ("count", "range", "share", "whole")
_REST = "bid int, abalance int, filler char(84)"
# name: (the key's columns, its values by PostgreSQL and by MariaDB of a number i; none: PostgreSQL only). PostgreSQL's database
# is in C.UTF-8, whose order of texts is that of their bytes; `collated` is read as if its own were not (it knows no other).
KEYS = {
    "whole": ("aid int PRIMARY KEY", "i", "seq"),
    "pair": ("a int, b bigint, PRIMARY KEY (a, b)", "i % 1000, i", "seq % 1000, seq"),
    "uuid": ("id uuid PRIMARY KEY", "md5(i::text)::uuid", "INSERT(INSERT(MD5(seq), 13, 1, '4'), 17, 1, '8')"),
    "collated": ("code varchar(40) PRIMARY KEY", "'code-' || i", ""),
    "text": ("code varchar(40) PRIMARY KEY", "'code-' || i", "CONCAT('code-', seq)"),
}


def main() -> int:
    """The exit code: 1 where a range of a table's keys costs two count(*) or more."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--database", choices=[*_PLACES], action="append")
    chosen = parser.parse_args()
    dear = False
    for name in chosen.database or _PLACES:
        with tempfile.TemporaryDirectory(prefix="source-cost-") as folder, _PLACES[name](Path(folder), chosen.rows) as source:
            for table in source.tables:
                facts = _measured(source, table, chosen.runs)
                dear |= facts["range_in_counts"] >= 2
                print(json.dumps({"rows": chosen.rows, **facts, "load": round(os.getloadavg()[0], 1)}), flush=True)
    return 1 if dear else 0


def _measured(source: Source, table: Table, runs: int) -> dict[str, Any]:
    database = Platform().database(source)
    text = RowText(silver_spec("none", source, table, database.tables([table.id])[table.id]))
    with open_cut(database, statement_timeout=600) as cut:
        if table.id.table == "collated":
            cut._bytewise = lambda *_: frozenset()  # type: ignore[attr-defined]
        cursor: Any = getattr(cut, "cursor", None) or cut.connection  # type: ignore[attr-defined]
        if source.database.kind == "postgresql":
            server = psutil.Process(cursor.execute("SELECT pg_backend_pid()").fetchone()[0])
        else:
            (server,) = (p for p in psutil.Process().children() if p.name() == "mariadbd")

        def count() -> None:
            cursor.execute(f"SELECT count(*) FROM {table.id.schema}.{table.id.table}")
            cursor.fetchall() if hasattr(cursor, "fetchall") else None

        share, ranges = iter(range(1_000_000)), itertools.cycle(_ranges(cursor, table, text))
        counted = _mean(server, count, runs)
        some = _mean(server, lambda: cut.digest(table.id, text, next(ranges)), runs)
        one = _mean(server, lambda: cut.digest(table.id, text, (next(share) % SHARES, SHARES)), runs)
        whole = _mean(server, lambda: cut.digest(table.id, text, (0, 1)), max(2, runs // 5))
    return {
        "database": source.database.kind,
        "key": table.id.table,
        **{f"{name}_ms": round(t * 1000, 1) for name, t in zip(_FACTS, (counted, some, one, whole), strict=True)},
        "shares": SHARES,
        **{f"{name}_in_counts": round(t / counted, 2) for name, t in zip(_FACTS[1:], (some, one, whole), strict=True)},
    }


def _ranges(cursor: Any, table: Table, text: RowText) -> list[KeyRange]:
    """One of 127 of the keys, from a quarter, the half and three quarters of them on."""
    order = text.order
    assert order is not None
    names, ordered = (", ".join(of(c) or "" for c in order.columns) for of in (lambda c: c.name, text.dialect.ordered))
    place = f"{table.id.schema}.{table.id.table}"
    # A cursor of MariaDB, a connection of PostgreSQL.
    asked = cursor.execute(f"SELECT {names} FROM {place} ORDER BY {ordered}")
    rows = (cursor if hasattr(cursor, "fetchall") else asked).fetchall()
    keys = [tuple(v if isinstance(v, int) else str(v) for v in row) for row in rows]
    return [KeyRange(order.names, keys[at], keys[at + len(keys) // SHARES]) for at in (len(keys) * i // 4 for i in (1, 2, 3))]


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
        for name, (columns, _, values) in ((n, key) for n, key in KEYS.items() if key[2]):
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
    tables = [{"name": f"{schema}.{name}"} for name, key in KEYS.items() if key[2] or kind == "postgresql"]
    return Source.model_validate({"source": "cost", "database": database, "tables": tables})


_PLACES = {"postgresql": _postgresql, "mariadb": _mariadb}

if __name__ == "__main__":
    sys.exit(main())
