"""What a comparison costs at the source, in count(*) of the same table: the scheduled check's run, a share, the whole digest.

    python -m benchmarks.source_cost [--rows 1000000] [--runs 20] [--database mariadb] [--key collated ...]

PostgreSQL and MariaDB of its own, tables of pgbench's accounts with keys of each kind, one backend, everything in memory. One
JSON line per table: the backend's processor time of one run, the mean of `runs`, and all in count(*). Of each table above
`reconciliation.max_rows` the check compares a range of keys or, where their order is not known on both sides, two ranges: `end`
finds the source's, `in_range` reads its rows, `looked_up` asks for half as many keys from all over the table. Nothing but the
databases is started. PostgreSQL's texts in another order than bytes are in en_US.UTF-8 (`localedef` compiles it).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from cdc_assets.chain.fold_specs import silver_spec
from cdc_assets.clients.databases.source_cut import SourceCut
from cdc_assets.clients.kind_clients import open_cut
from cdc_assets.clients.platform import Platform
from cdc_assets.registry.source_declaration import Source
from cdc_assets.registry.table_declaration import Table
from cdc_assets_tests.support.live.live_source import NAME
from cdc_assets_tests.support.servers.mariadb_server import PASSWORD, mariadb_server
from cdc_assets_tests.support.servers.own_server import own_server
from spark.proof.key_order import Bound, KeyRange
from spark.proof.row_text import RowText
from spark.values.sql_dialects import SHARES

_REST = "bid int, abalance int, filler char(84)"
LOCALE = "en_US.UTF-8"
# name: (the key's columns, its values by PostgreSQL and by MariaDB of a number i; none: the other one only). PostgreSQL's
# database is in C.UTF-8, whose order of texts is that of their bytes, MariaDB's in a collation that minds no case.
_TEXT, _MOMENT = "code varchar(40) PRIMARY KEY", "at timestamp(3) PRIMARY KEY"
_MIXED = "day date, code varchar(40), amount decimal(12,2), PRIMARY KEY (day, code, amount)"
KEYS = {
    "whole": ("aid int PRIMARY KEY", "i", "seq"),
    "pair": ("a int, b bigint, PRIMARY KEY (a, b)", "i % 1000, i", "seq % 1000, seq"),
    "uuid": ("id uuid PRIMARY KEY", "md5(i::text)::uuid", "INSERT(INSERT(MD5(seq), 13, 1, '4'), 17, 1, '8')"),
    "text": (_TEXT, "'code-' || i", "CONCAT('code-', seq)"),
    "collated": (_TEXT.replace(" PRIMARY", ' COLLATE "en" PRIMARY'), "'code-' || i", ""),
    "collated_random": (_TEXT.replace(" PRIMARY", ' COLLATE "en" PRIMARY'), "md5(i::text)", ""),
    "text_random": (_TEXT, "", "MD5(seq)"),
    "decimal": ("amount decimal(12,2) PRIMARY KEY", "i / 100.0", "seq / 100.0"),
    "moment": (_MOMENT, "'2020-01-01'::timestamp + i * interval '1 second'", "'2020-01-01' + INTERVAL seq SECOND"),
    "mixed": (
        _MIXED.replace("code varchar(40)", 'code varchar(40) COLLATE "en"'),
        "date '2020-01-01' + i % 1000, 'code-' || i % 5000, i / 100.0",
        "",
    ),
    "composite": (_MIXED, "", "'2020-01-01' + INTERVAL seq % 1000 DAY, CONCAT('code-', seq % 5000), seq / 100.0"),
}


def main() -> int:
    """The exit code: 1 where a scheduled run costs two count(*) or more."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--database", choices=[*_PLACES], action="append")
    parser.add_argument("--key", choices=[*KEYS], action="append", help="default: all")
    chosen = parser.parse_args()
    dear = False
    for name in chosen.database or _PLACES:
        keys = [k for k in chosen.key or KEYS if KEYS[k][1 if name == "postgresql" else 2]]
        with (
            tempfile.TemporaryDirectory(prefix="source-cost-") as folder,
            _PLACES[name](Path(folder), chosen.rows, keys) as source,
        ):
            for table in source.tables:
                facts = _measured(source, table, chosen.runs)
                dear |= facts["run_in_counts"] >= 2
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

        def measured(act: Callable[[], object], times: int = runs) -> float:
            return _mean(server, act, times)

        share, costs = iter(range(1_000_000)), {"count": measured(count)}
        if text.order is not None and text.order.by_index(cut.bytewise(table.id)):
            ranges = itertools.cycle(_ranges(_keys(cursor, table, text), text.order.names))
            costs["run"] = measured(lambda: cut.digest(table.id, text, next(ranges)))
        else:
            costs |= _two_ranges(cut, cursor, table, text, _keys(cursor, table, text), measured)
        costs["share"] = measured(lambda: cut.digest(table.id, text, (next(share) % SHARES, SHARES)), max(2, runs // 5))
        costs["whole"] = measured(lambda: cut.digest(table.id, text, (0, 1)), max(2, runs // 10))
    return {
        "database": source.database.kind,
        "key": table.id.table,
        **{f"{name}_ms": round(t * 1000, 1) for name, t in costs.items()},
        "shares": SHARES,
        **{f"{name}_in_counts": round(t / costs["count"], 2) for name, t in costs.items() if name != "count"},
    }


def _two_ranges(
    cut: SourceCut, cursor: Any, table: Table, text: RowText, keys: list[Bound], measured: Callable[[Callable[[], object]], float]
) -> dict[str, float]:
    """The parts of a run, and their sum."""
    names, count = text.in_own_order.names, len(keys) // SHARES
    ranges = _ranges(keys, names)
    ends, next_ = itertools.cycle(r.after for r in ranges), itertools.cycle(ranges)
    anywhere = f"ORDER BY {text.dialect.hash(text.key_sql())} LIMIT {count // 2}"
    asked = {
        row[0]: text.bind_values(row[1:]) for row in _read(cursor, table, f"{text.key_sql()}, {text.key_values_sql()}", anywhere)
    }
    assert cut.present(table.id, text, asked) == asked.keys()
    parts = {
        "end": measured(lambda: cut.range_end(table.id, text, next(ends), count)),
        "in_range": measured(lambda: cut.in_range(table.id, text, next(next_))),
        "looked_up": measured(lambda: cut.present(table.id, text, asked)),
    }
    return {**parts, "run": sum(parts.values())}


def _keys(cursor: Any, table: Table, text: RowText) -> list[Bound]:
    """All of them, in the order that the source has for them."""
    order = text.in_own_order.listed
    rows = _read(cursor, table, order, f"ORDER BY {order}")
    return [tuple(v if isinstance(v, int) else str(v) for v in row) for row in rows]


def _read(cursor: Any, table: Table, columns: str, rest: str) -> Sequence[Sequence[Any]]:
    """A cursor of MariaDB, a connection of PostgreSQL."""
    asked = cursor.execute(f"SELECT {columns} FROM {table.id.schema}.{table.id.table} {rest}")
    return list((cursor if hasattr(cursor, "fetchall") else asked).fetchall())


def _ranges(keys: list[Bound], names: tuple[str, ...]) -> list[KeyRange]:
    """One of 127 of the keys, from a quarter, the half and three quarters of them on."""
    return [KeyRange(names, keys[at], keys[at + len(keys) // SHARES]) for at in (len(keys) * i // 4 for i in (1, 2, 3))]


def _mean(server: psutil.Process, act: Callable[[], object], runs: int) -> float:
    """Seconds of the server's processor time: other work on the machine does not count."""

    act()
    before = sum(server.cpu_times()[:2])
    for _ in range(runs):
        act()
    return (sum(server.cpu_times()[:2]) - before) / runs


@contextmanager
def _postgresql(folder: Path, rows: int, keys: Sequence[str]) -> Iterator[Source]:
    folder.chmod(0o755)
    password = "cost"
    with own_server(folder, password=password, locale=LOCALE) as server:
        server.run(f"CREATE COLLATION en (provider = libc, locale = '{LOCALE}')")
        for name, (columns, values, _) in ((name, KEYS[name]) for name in keys):
            server.run(
                f"CREATE TABLE {name} ({columns}, {_REST})",
                f"INSERT INTO {name} SELECT {values}, i % 10, i, '' FROM generate_series(1, {rows}) i",
            )
        with server.connection() as connection:
            connection.autocommit = True
            connection.execute("VACUUM ANALYZE")
        port = server.postgres.site.ports["postgres"]
        with _secret(password):
            yield _source("postgresql", port, NAME, "public", keys, dbname=NAME)


@contextmanager
def _mariadb(folder: Path, rows: int, keys: Sequence[str]) -> Iterator[Source]:
    with mariadb_server(folder, "--innodb-buffer-pool-size=1G") as server:
        server.execute("CREATE DATABASE cost")
        for name, (columns, _, values) in ((name, KEYS[name]) for name in keys):
            server.execute(
                f"CREATE TABLE cost.{name} ({columns}, {_REST})",
                f"INSERT INTO cost.{name} SELECT {values}, seq % 10, seq, '' FROM cost.seq_1_to_{rows}",
                f"ANALYZE TABLE cost.{name}",
            )
        with _secret(PASSWORD):
            yield _source("mariadb", server.port, "cdc", "cost", keys)


@contextmanager
def _secret(password: str) -> Iterator[None]:
    os.environ["CDC_SECRET_COST"] = password
    try:
        yield
    finally:
        del os.environ["CDC_SECRET_COST"]


def _source(kind: str, port: int, user: str, schema: str, keys: Sequence[str], **more: str) -> Source:
    database = {"kind": kind, "host": "127.0.0.1", "port": port, "user": user, "password": {"secret": "cost"}, **more}
    tables = [{"name": f"{schema}.{name}"} for name in keys]
    return Source.model_validate({"source": "cost", "database": database, "tables": tables})


_PLACES = {"postgresql": _postgresql, "mariadb": _mariadb}

if __name__ == "__main__":
    sys.exit(main())
