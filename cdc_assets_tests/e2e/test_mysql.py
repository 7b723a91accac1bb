"""A MySQL that the stack does not run, captured as `cdc up` sets it up: equal, damage found, a table that comes later."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cdc_assets_tests.e2e.source_rows import Rows, binlog_rows, silver_rows
from cdc_assets_tests.programs.mysql import MYSQL
from cdc_assets_tests.programs.whole_java import WHOLE_JAVA
from cdc_assets_tests.support.lakehouse import Lakehouse
from cdc_assets_tests.support.modes import private_files
from cdc_assets_tests.support.servers.mysql_server import MySqlServer

pytestmark = pytest.mark.e2e

PARTS, LATE = "plant__parts", "plant__late"
CHANGES = (
    "INSERT INTO plant.parts VALUES (18446744073709551615, 'Añb''\"\\\\ 中😀', -0.0000000001, NULL, NULL, 1)",
    "UPDATE plant.parts SET price = price + 0.0000000001, state = 'paid' WHERE id % 50 = 0",
    "UPDATE plant.parts SET id = id + 1000 WHERE id = 7",
    "DELETE FROM plant.parts WHERE id % 100 = 3",
)


@pytest.fixture(scope="module")
def server(lakehouse: Lakehouse) -> MySqlServer:
    for program in (MYSQL, WHOLE_JAVA):
        program.require()
    assert lakehouse.mysql
    return lakehouse.mysql


def path_of(lakehouse: Lakehouse, table: str) -> Path:
    return lakehouse.silver("plant", table)


def awaited(lakehouse: Lakehouse, server: MySqlServer, table: str, silver: str) -> tuple[Rows, Rows]:
    """The rows of the source, and silver's once all that is committed now has come by the sensors."""
    lakehouse.cdc("wait", "plant", "--timeout", "400")
    columns, expected = binlog_rows(server, table)
    return expected, silver_rows(path_of(lakehouse, silver), columns)


def test_silver_equals_the_source_after_live_changes(lakehouse: Lakehouse, server: MySqlServer) -> None:
    assert PARTS in lakehouse.up_output
    # Nobody has declared that its rows be compared.
    answer = json.loads(lakehouse.cdc("status", "-o", "json", check=False).stdout)
    (row,) = [each for each in answer["tables"] if each["table"] == PARTS]
    assert row["rows_compared"]["position"].startswith("binlog."), row
    assert row["rows_compared"]["part"] == "1/1"
    server.execute(*CHANGES)
    expected, found = awaited(lakehouse, server, "plant.parts", PARTS)
    assert found == expected
    assert expected.total() == 500 + 1 - 5


@pytest.mark.all
def test_damage_is_found_at_one_place_of_the_binlog_and_healed(lakehouse: Lakehouse, server: MySqlServer) -> None:
    with private_files():
        DeltaTable(str(path_of(lakehouse, PARTS))).delete("id = 11")  # planted: a row that silver has lost
    told = lakehouse.cdc("reconcile", f"plant.{PARTS}", "-o", "json", check=False)
    assert told.returncode == 1, told.stdout + told.stderr
    (result,) = json.loads(told.stdout)
    assert [(d["kind"], d["where"]) for d in result["differences"]] == [("missing", "silver")]
    (healed,) = json.loads(lakehouse.cdc("reconcile", f"plant.{PARTS}", "--heal", "-o", "json").stdout)
    assert healed["verdict"] == "equal"
    expected, found = awaited(lakehouse, server, "plant.parts", PARTS)
    assert found == expected


def moved_money(server: MySqlServer, until: threading.Event) -> int:
    """How many transactions have each moved some from a till to a safe."""
    moved = 0
    with server.connect(autocommit=False) as connection, connection.cursor() as cursor:
        while not until.is_set():
            for table, sign in (("tills", "-"), ("safes", "+")):
                cursor.execute(f"UPDATE plant.{table} SET money = money {sign} 1 WHERE id = {1 + moved % 3}")
            connection.commit()
            moved += 1
    return moved


@pytest.mark.all
def test_money_that_moves_is_whole_in_every_cut(lakehouse: Lakehouse, server: MySqlServer) -> None:
    ended, found = threading.Event(), []
    with ThreadPoolExecutor(1) as pool:
        moving = pool.submit(moved_money, server, ended)
        try:
            for _ in range(3):
                cut = json.loads(lakehouse.cdc("cut", "make", "plant", "-o", "json").stdout)
                found.append({entry["table"]: entry["version"] for entry in cut["entries"] if entry["layer"] == "silver"})
        finally:
            ended.set()
        assert moving.result(60) > 10
    sums = [
        [
            sum(
                DeltaTable(str(path_of(lakehouse, f"plant__{t}")), version=cut[f"plant__{t}"])
                .to_pyarrow_table()["money"]
                .to_pylist()
            )
            for t in ("tills", "safes")
        ]
        for cut in found
    ]
    assert [tills + safes for tills, safes in sums] == [6000] * 3
    assert sums[0][1] < sums[1][1] < sums[2][1], "something has moved between two cuts"


@pytest.mark.all
def test_a_table_is_taken_in_while_it_is_written_to(lakehouse: Lakehouse, server: MySqlServer) -> None:
    server.execute(
        "CREATE TABLE plant.late (id int PRIMARY KEY, v varchar(20))",
        "INSERT INTO plant.late WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 300)"
        " SELECT n, CONCAT('ž€ ', n) FROM s",
    )
    lakehouse.cdc("onboard", "plant", "plant.late", "-o", "json")
    server.execute("UPDATE plant.late SET v = 'later' WHERE id % 7 = 0", "DELETE FROM plant.late WHERE id = 1")
    expected, found = awaited(lakehouse, server, "plant.late", LATE)
    assert found == expected
    assert expected.total() == 299


@pytest.mark.all
def test_a_server_that_was_reset_is_read_anew_in_an_epoch(lakehouse: Lakehouse, server: MySqlServer, tmp_path: Path) -> None:
    server.execute("RESET BINARY LOGS AND GTIDS", "DELETE FROM plant.parts WHERE id = 12")
    connector = 'key:"connector/plant/connector_plant"'
    refused = lakehouse.materialize(tmp_path, connector)
    assert refused.returncode != 0
    assert "cdc repair source plant opens a new epoch" in refused.stdout + refused.stderr
    lakehouse.cdc("repair", "source", "plant")
    again = lakehouse.materialize(tmp_path, connector)
    assert again.returncode == 0, again.stdout[-3000:] + again.stderr[-3000:]
    server.execute("UPDATE plant.parts SET note = 'after the reset' WHERE id = 13")
    for table, silver in (("plant.parts", PARTS), ("plant.late", LATE)):
        expected, found = awaited(lakehouse, server, table, silver)
        assert found == expected
