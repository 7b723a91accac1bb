"""SQLite in the place of a server that gives its rows by pages, in each kind's SQL."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from cdc_assets.clients.databases.row_pages import Connection
from cdc_assets.registry.source_declaration import UnaskedSource
from spark.values.sql_dialects import Dialect, MySqlDialect, OracleDialect, SqlServerDialect

ROWS = [(f"c'{i % 7}", i // 7 - 3, None if i % 5 else f"%s {i}") for i in range(60)]

EVERY = [MySqlDialect(), SqlServerDialect(), OracleDialect()]

SERVERS = {
    "mysql": {"host": "db"},
    "sqlserver": {"host": "db", "dbname": "shop"},
    "oracle": {"host": "db", "dbname": "ORCL"},
    "mongodb": {"hosts": "db:27017"},
}


@dataclass
class InSqlite(Connection):
    """A cursor that speaks one kind's SQL; `asked` are the statements as they came."""

    dialect: Dialect
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.database = sqlite3.connect(":memory:")
        self.database.execute("ATTACH ':memory:' AS shop")
        self.database.execute('CREATE TABLE shop."line item" (code TEXT, line INT, note TEXT, PRIMARY KEY (code, line))')
        self.database.executemany('INSERT INTO shop."line item" VALUES (?, ?, ?)', ROWS)
        self.database.execute("CREATE TABLE shop.marker (id TEXT PRIMARY KEY)")

    @contextmanager
    def cursor(self) -> Iterator[Any]:
        cursor = self.database.cursor()

        def execute(query: str, values: Sequence[Any]) -> None:
            self.asked.append(query)
            translated = re.sub(r"^SELECT TOP \((\d+)\) (.*)$", r"SELECT \2 LIMIT \1", query)
            translated = re.sub(r"FETCH FIRST (\d+) ROWS ONLY", r"LIMIT \1", translated)
            cursor.execute(re.sub(r":(\d+)", r"?\1", translated).replace("%s", "?"), list(values))

        yield SimpleNamespace(execute=execute, fetchall=cursor.fetchall)


def source_of(kind: str, **more: Any) -> UnaskedSource:
    key = "_id" if kind == "mongodb" else "id"
    return UnaskedSource.model_validate(
        {
            "source": "erp",
            "database": {"kind": kind, "user": "cdc", "password": {"secret": "erp"}, **SERVERS[kind]},
            "tables": [{"name": "shop.orders", "keys": [key], "columns": {key: "text not null", "lines": "jsonb"}}],
            **more,
        }
    )
