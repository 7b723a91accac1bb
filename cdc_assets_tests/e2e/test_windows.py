"""Results by windows on the embedded stack: they come by their schedule, and SQL over the source says the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from cdc_assets_tests.support.lakehouse import Lakehouse, until
from cdc_assets_tests.support.servers.mariadb_server import MariaDbServer

pytestmark = pytest.mark.e2e
NAME = "shop__orders__per_hour"
_BY_HOUR = (
    "SELECT state, DATE_FORMAT(at, '%Y-%m-%d %H'), COUNT(*), SUM(price) FROM shop.orders WHERE at IS NOT NULL GROUP BY 1, 2"
)


def of_source(server: MariaDbServer) -> set[tuple[Any, ...]]:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(_BY_HOUR)
        return set(cursor.fetchall())


def of_lake(lakehouse: Lakehouse) -> set[tuple[Any, ...]]:
    path = Path(lakehouse.addresses["CDC_LAKE"], "windows", "shop", NAME)
    if not DeltaTable.is_deltatable(str(path)):
        return set()
    rows = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return {(row["state"], f"{row['window_start']:%Y-%m-%d %H}", row["orders"], row["revenue"]) for row in rows}


@pytest.mark.all
def test_windows_follow_the_source(lakehouse: Lakehouse) -> None:
    until(lambda: of_lake(lakehouse) == of_source(lakehouse.mariadb), "the first results do not come", seconds=400)
    lakehouse.mariadb.execute(
        "UPDATE shop.orders SET state = 'paid', price = price + 1 WHERE id % 3 = 0",
        "DELETE FROM shop.orders WHERE id % 50 = 7",
        "INSERT INTO shop.orders VALUES (9001, 'late', 2.5, '2026-01-01 00:03:00', 'new', 1)",
    )
    wanted = of_source(lakehouse.mariadb)
    assert {row[0] for row in wanted} == {"new", "paid"}
    until(lambda: of_lake(lakehouse) == wanted, "the changed results do not come", seconds=400)
    asked = f"SELECT state, sum(orders)::INT AS orders FROM windows.shop.{NAME} GROUP BY state ORDER BY state"
    shown = json.loads(lakehouse.cdc("sql", asked, "-o", "json").stdout)
    by_state = {state: sum(row[2] for row in wanted if row[0] == state) for state in ("new", "paid")}
    assert {row["state"]: row["orders"] for row in shown} == by_state
