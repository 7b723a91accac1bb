"""Windows by MySQL's SQL, with what its collations and time zones would make of them: Python is the oracle."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.source_declaration import UnaskedSource
from cdc_assets_tests.support.asked_windows import ask_server
from cdc_assets_tests.support.servers.binlog_server import PASSWORD
from cdc_assets_tests.support.servers.mysql_server import mysql_server

pytestmark = pytest.mark.all

EPOCH = dt.datetime(1970, 1, 1)
CITIES = ("Köln", "KÖLN", "Koln", "Köln ", None, "😀")
WINDOWS = {
    "name": "hourly",
    "event_time": "at",
    "size": "1h",
    "by": ["city"],
    "measures": {"n": "count", "sorts": "distinct sort"},
}
ROWS = [
    (n, CITIES[n % 6], EPOCH + dt.timedelta(microseconds=(n * 7_919_000_001) % 20_000_000_000), ("a", "A", "a ")[n % 4 % 3])
    for n in range(300)
]


def test_results_are_those_of_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_SECRET_SHOP", PASSWORD)
    with mysql_server(tmp_path) as server:
        server.execute(
            "CREATE DATABASE shop",
            "CREATE TABLE shop.sales (id int PRIMARY KEY, city varchar(9), at datetime(6), sort varchar(3) CHARACTER SET latin1, "
            "opened time, moment timestamp(6) NULL)",
        )
        with server.connect(charset="utf8mb4") as connection, connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
            cursor.executemany("INSERT INTO shop.sales (id, city, at, sort) VALUES (%s, %s, %s, %s)", ROWS)
            cursor.execute("UPDATE shop.sales SET moment = at WHERE at > '1970-01-01 00:00:01'")

        def asked(**more: object) -> dict[Any, tuple[Any, ...]]:
            place = {"kind": "mysql", "host": "127.0.0.1", "port": server.port, "user": "cdc", "password": {"secret": "shop"}}
            table = {"name": "shop.sales", "windows": [{**WINDOWS, **more}]}
            return ask_server(UnaskedSource.model_validate({"source": "shop", "database": place, "tables": [table]}))

        counted = Counter((city, _start(at)) for _, city, at, _ in ROWS)
        sorts = {key: len({sort for _, city, at, sort in ROWS if (city, _start(at)) == key}) for key in counted}
        assert asked() == {key: (n, sorts[key]) for key, n in counted.items()}
        late = Counter((city, _start(at)) for _, city, at, _ in ROWS if at > EPOCH + dt.timedelta(seconds=1))
        assert asked(event_time="moment", measures={"n": "count"}) == {key: (n,) for key, n in late.items()}
        with pytest.raises(DatabaseError, match="opened is time: windows over it cannot be compared"):
            asked(by=["opened"])


def _start(at: dt.datetime) -> int:
    micros = (at - EPOCH) // dt.timedelta(microseconds=1)
    return micros - micros % 3_600_000_000
