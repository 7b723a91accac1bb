"""Windows by MariaDB's SQL, with what its collations, time zones and types would make of them: Python is the oracle."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.support.asked_windows import ask_server
from cdc_assets_tests.support.servers.mariadb_server import PASSWORD, MariaDbServer, mariadb_server

pytestmark = pytest.mark.service

HOPPING: dict[str, Any] = {
    **{"name": "hopping", "event_time": "at", "size": "1h", "every": "20m", "by": ["city"]},
    "measures": {"n": "count", "known": "count total", "revenue": "sum total", "last": "max at", "sorts": "distinct sort"},
}
Row = tuple[int, str | None, dt.datetime | None, Decimal | None, str | None]
EPOCH = dt.datetime(1970, 1, 1)
CITIES = ("Köln", "KÖLN", "Koln", "Köln ", None, "😀")


def row(number: int) -> Row:
    """Around 1970, with microseconds; each ninth without a time."""
    at = None if number % 9 == 0 else EPOCH + dt.timedelta(microseconds=(number * 7_919_000_001) % 20_000_000_000 - 9_000_000_000)
    total = None if number % 7 == 0 else Decimal(number * 31 % 1000) / 100
    return number, CITIES[number % len(CITIES)], at, total, ("a", "A", "a ")[number % 3]


ROWS = [row(number) for number in range(300)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDbServer]:
    with mariadb_server(tmp_path_factory.mktemp("mariadb")) as found:
        found.execute(
            "CREATE DATABASE shop",
            "CREATE TABLE shop.sales (id int PRIMARY KEY, city varchar(9) CHARACTER SET utf8mb4, at datetime(6), "
            "total decimal(9,2), sort varchar(3) CHARACTER SET latin1, opened time, moment timestamp(6) NULL)",
        )
        with found.connect(charset="utf8mb4") as connection, connection.cursor() as cursor:
            cursor.executemany("INSERT INTO shop.sales (id, city, at, total, sort) VALUES (%s, %s, %s, %s, %s)", ROWS)
        # In the session's time zone the two are the same moment, and in no other.
        with found.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
            cursor.execute("UPDATE shop.sales SET moment = at WHERE at > '1970-01-01 00:00:01'")
        yield found


def asked(server: MariaDbServer, declared: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[Any, tuple[Any, ...]]:
    monkeypatch.setenv("CDC_SECRET_SHOP", PASSWORD)
    database = {"kind": "mariadb", "host": "127.0.0.1", "port": server.port, "user": "cdc", "password": {"secret": "shop"}}
    tables = [{"name": "shop.sales", "windows": [declared]}]
    return ask_server(Source.model_validate({"source": "shop", "database": database, "tables": tables}))


def computed(rows: list[Row]) -> dict[Any, tuple[Any, ...]]:
    groups = defaultdict(list)
    for found in rows:
        if found[2] is not None:
            micros = (found[2] - EPOCH) // dt.timedelta(microseconds=1)
            newest = micros // 1_200_000_000 * 1_200_000_000
            for back in range(3):
                groups[found[1], newest - back * 1_200_000_000].append(found)
    return {
        key: (
            len(held),
            sum(1 for each in held if each[3] is not None),
            sum((each[3] for each in held if each[3] is not None), Decimal())
            if any(each[3] is not None for each in held)
            else None,
            max(each[2] for each in held if each[2] is not None),
            len({each[4] for each in held}),
        )
        for key, held in groups.items()
    }


def test_results_are_those_of_the_rows(server: MariaDbServer, monkeypatch: pytest.MonkeyPatch) -> None:
    found = asked(server, HOPPING, monkeypatch)
    assert found == computed(ROWS)
    assert {key[0] for key in found} == set(CITIES)
    assert any(key[1] < 0 for key in found)


def test_a_timestamp_is_one_moment_whatever_the_servers_time_zone(server: MariaDbServer, monkeypatch: pytest.MonkeyPatch) -> None:
    by_moment = {**HOPPING, "event_time": "moment", "measures": {"n": "count"}}
    later = [found for found in ROWS if found[2] is not None and found[2] > EPOCH + dt.timedelta(seconds=1)]
    assert asked(server, by_moment, monkeypatch) == {key: told[:1] for key, told in computed(later).items()}


def test_what_driver_and_lake_have_as_two_values_is_not_compared(server: MariaDbServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DatabaseError, match=r"shop\.sales\.opened is time: windows over it cannot be compared with the source"):
        asked(server, {**HOPPING, "by": ["opened"]}, monkeypatch)
    with pytest.raises(DatabaseError, match="has no column gone"):
        asked(server, {**HOPPING, "by": ["gone"]}, monkeypatch)
