"""`cdc apply`, `snapshot`, `reconcile --heal` and `repair bronze` of a MySQL, through the signal table that `cdc apply` makes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from cdc_assets.registry import names
from cdc_assets_tests.support.lake.lake import values
from cdc_assets_tests.support.live.binlog_chain import BinlogChain, binlog_chain
from cdc_assets_tests.support.live.cdc import Lake
from cdc_assets_tests.support.live.live_mysql import LiveMySql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

NAME, TABLE = "mysqlverbs", "mysqlverbs.t"
LATE, HIDDEN = "mysqllate", "mysqlhidden"
SIGNALS = f"cdc_assets.signal_{NAME}"
ROWS = 40


class Ground(BinlogChain):
    """One table; its columns come from the catalogue."""

    @property
    def bronze(self) -> DeltaTable:
        return DeltaTable(names.bronze_path(self.platform.lake, self.source))

    def sent(self) -> list[tuple[str, int, str]]:
        """What the topic has, in order: operation, key and value."""
        (records,) = self.own.delivered()[f"{self.name}.{TABLE}"].values()
        events = [json.loads(record.value) for record in records if record.value is not None]
        return [(e["op"], row["id"], row["v"]) for e in events for row in [e["after"] or e["before"]]]

    def lose(self, text: str, op: str) -> None:
        """Bronze has lost the one event of this kind with this text."""
        bronze = self.bronze
        found = [r for r in bronze.to_pyarrow_table().to_pylist() if r["op"] == op and text in (r["value"] or b"").decode()]
        (lost,) = found
        bronze.delete(f"epoch = {lost['epoch']} AND offset = {lost['offset']}")

    def rows(self) -> list[tuple[int, str]]:
        """The oracle: the table itself."""
        return sorted((int(row[0]), str(row[1])) for row in self.own.server.query(f"SELECT id, v FROM {TABLE}"))

    def silver(self) -> list[tuple[int, str]]:
        found = values(names.silver_path(self.platform.lake, self.source, self.source.tables[0]))
        return sorted((row["id"], row["v"]) for row in found)


@pytest.fixture(scope="module")
def ground(
    mysql: LiveMySql, lake: Lake, remote: str, session: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ground]:
    own = mysql.renamed(NAME)
    own.server.execute(
        f"CREATE DATABASE {NAME}",
        f"CREATE TABLE {TABLE} (id int PRIMARY KEY, v varchar(100))",
        *(f"INSERT INTO {TABLE} VALUES ({n}, 'ž€ {n}')" for n in range(ROWS)),
    )
    with binlog_chain(own, lake, remote, tmp_path_factory.mktemp(NAME)) as ground:
        yield Ground(own, ground.cdc, ground.platform)


def test_a_table_is_read_again_through_the_table_that_apply_makes(ground: Ground) -> None:
    cdc = ground.cdc
    ground.declare([{"name": TABLE}], reconciliation={"signals": SIGNALS})
    assert [row["summary"] for row in cdc.json("apply", NAME)] == ["created", "created"]
    assert columns(ground, SIGNALS) == ["data", "id", "type"]
    assert len(ground.sent()) == ROWS
    steps = cdc.json("snapshot", NAME, TABLE)["steps"]
    assert steps["snapshot"]["rows_scanned"] == {TABLE: ROWS}
    assert ground.sent() == [("r", n, f"ž€ {n}") for n in range(ROWS)] * 2
    assert ground.own.server.query(f"SELECT COUNT(*) FROM {SIGNALS}") == [(0,)]


def columns(ground: Ground, table: str) -> list[str]:
    query = "SELECT column_name FROM information_schema.columns WHERE CONCAT(table_schema, '.', table_name) = '{}' ORDER BY 1"
    return [str(row[0]) for row in ground.own.server.query(query.format(table))]


def test_only_the_rows_of_a_condition_are_read_again(ground: Ground) -> None:
    cdc, before = ground.cdc, len(ground.sent())
    found = cdc.json("snapshot", NAME, TABLE, "--where", "v LIKE 'ž€ %' AND id % 10 = 5 OR id = 1 -- by hand")
    assert found["steps"]["snapshot"]["rows_scanned"] == {TABLE: 5}
    assert ground.sent()[before:] == [("r", n, f"ž€ {n}") for n in (1, 5, 15, 25, 35)]
    assert "Unknown column 'nothing'" in cdc("snapshot", NAME, TABLE, "--where", "nothing = 1", code=1)
    assert "leave --blocking out" in cdc("snapshot", NAME, TABLE, "--blocking", code=1)


def test_reconcile_heals_what_bronze_has_lost(ground: Ground) -> None:
    cdc, server = ground.cdc, ground.own.server
    server.execute(f"INSERT INTO {TABLE} VALUES (100, 'verloren: ß'), (101, 'kept')", f"UPDATE {TABLE} SET v = 'ü' WHERE id = 3")
    assert ground.carry(fold=False) == ""
    ground.lose("verloren", "c")
    assert ground.carry() == ""
    (found,) = cdc.json("reconcile", NAME, code=1)
    assert [(d["key"], d["kind"]) for d in found["differences"]] == [("100;", "missing")]
    assert found["method"] == "cut"
    (healed,) = cdc.json("reconcile", NAME, "--heal")
    assert (healed["verdict"], healed["healed"], healed["source_rows"]) == ("equal", 1, ROWS + 2)
    assert ground.carry() == ""
    assert ground.silver() == ground.rows()
    assert [row for row in ground.sent() if row[1] == 100] == [("c", 100, "verloren: ß"), ("r", 100, "verloren: ß")]


def test_a_delete_that_bronze_has_lost_is_mended_by_a_new_epoch(ground: Ground) -> None:
    cdc, server = ground.cdc, ground.own.server
    server.execute(f"DELETE FROM {TABLE} WHERE id = 7")
    assert ground.carry(fold=False) == ""
    ground.lose("ž€ 7", "d")
    assert ground.carry() == ""
    (found,) = cdc.json("reconcile", NAME, "--heal", code=1)
    assert [(d["key"], d["kind"]) for d in found["differences"]] == [("7;", "phantom")]
    assert f"would read {TABLE} again" in cdc("repair", "bronze", NAME, TABLE, "--anew", "--dry-run")
    repaired = cdc.json("repair", "bronze", NAME, TABLE, "--anew")
    assert (repaired["epoch"], repaired["repaired"], repaired["read_again"]) == (1, True, True)
    server.execute(f"INSERT INTO {TABLE} VALUES (200, 'behind it')")
    assert ground.carry() == ""
    assert ground.silver() == ground.rows()
    (equal,) = cdc.json("reconcile", NAME)
    assert (equal["verdict"], equal["source_rows"]) == ("equal", ROWS + 2)


def test_a_connector_that_ran_before_takes_signals_once_they_are_declared(ground: Ground) -> None:
    """Its history has to know a table that was made when it ran already."""
    late = replace(ground, own=ground.own.renamed(LATE))
    late.declare([{"name": TABLE}])
    cdc = late.cdc
    assert [row["summary"] for row in cdc.json("apply", LATE)] == ["created", "created"]
    late.own.delivered()
    assert f"declare one: reconciliation: {{signals: cdc_assets.signal_{LATE}}}" in cdc("snapshot", LATE, TABLE, code=1)
    late.declare([{"name": TABLE}], reconciliation={"signals": f"cdc_assets.signal_{LATE}"})
    (capture, _) = cdc.json("apply", LATE)
    assert (capture["summary"], capture["error"]) == ("changed", None)
    assert columns(late, f"cdc_assets.signal_{LATE}") == ["data", "id", "type"]
    late.own.live.connect.wait_running(f"{LATE}-capture")
    assert cdc.json("snapshot", LATE, TABLE)["steps"]["snapshot"]["rows_scanned"] == {TABLE: len(late.rows())}
    cdc.lake.connect.delete(f"{LATE}-mirror")


def test_a_generated_invisible_key_is_read_again(ground: Ground) -> None:
    """`SELECT *` has neither the key that the server makes nor the INVISIBLE column."""
    hidden, table = replace(ground, own=ground.own.renamed(HIDDEN)), f"{HIDDEN}.t"
    ground.own.server.execute(
        f"CREATE DATABASE {HIDDEN}",
        "SET SESSION sql_generate_invisible_primary_key = ON",
        f"CREATE TABLE {table} (a int, b int INVISIBLE DEFAULT 7)",
        f"INSERT INTO {table} (a) VALUES (1), (2)",
    )
    hidden.declare([{"name": table}], reconciliation={"signals": f"cdc_assets.signal_{HIDDEN}"})
    cdc = ground.cdc
    assert [row["summary"] for row in cdc.json("apply", HIDDEN)] == ["created", "created"]
    ground.own.server.execute(f"INSERT INTO {table} (a) VALUES (3)")
    hidden.own.delivered()
    assert cdc.json("snapshot", HIDDEN, table)["steps"]["snapshot"]["rows_scanned"] == {table: 3}
    (records,) = hidden.own.delivered()[f"{HIDDEN}.{table}"].values()
    sent = [json.loads(record.value)["after"] for record in records if record.value is not None]
    rows = ground.own.server.query(f"SELECT my_row_id, a, b FROM {table} ORDER BY my_row_id")
    wanted = [dict(zip(("my_row_id", "a", "b"), row, strict=True)) for row in rows]
    assert [row["b"] for row in wanted] == [7, 7, 7]
    found = [{**row, "my_row_id": int.from_bytes(base64.b64decode(row["my_row_id"]))} for row in sent]
    assert found == [*wanted, *wanted]
    cdc.lake.connect.delete(f"{HIDDEN}-mirror")
