"""What a real MySQL says of itself after a RESET, and what is made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdc_assets.capture.incarnations.binlog_incarnation import MySqlFacts, facts_of, judge_mysql, remember_uuid
from cdc_assets.capture.incarnations.server_facts import Known, Memory
from cdc_assets.clients.databases.mysql import MySqlDatabase
from cdc_assets.registry.databases import MySql
from cdc_assets_tests.support.servers.binlog_server import PASSWORD
from cdc_assets_tests.support.servers.mysql_server import mysql_server

pytestmark = pytest.mark.all


def test_a_reset_server_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_SECRET_SHOP", PASSWORD)
    monkeypatch.setenv("CDC_HOME", str(tmp_path / "home"))
    with mysql_server(tmp_path, "--gtid-mode=ON", "--enforce-gtid-consistency=ON") as server:
        address = MySql(kind="mysql", host="127.0.0.1", port=server.port, user="cdc", password={"secret": "shop"})
        database = MySqlDatabase(address)
        server.execute("CREATE DATABASE shop", "CREATE TABLE shop.t (id int PRIMARY KEY)", "INSERT INTO shop.t VALUES (1)")
        ((read,),) = server.query("SELECT @@global.gtid_executed")
        place = database.place_now()
        offsets: list[dict[str, Any]] = [{"offset": {"file": place.file, "pos": place.position, "gtids": read}}]
        before = facts_of(database, read)
        memory = Memory.of("shop")
        remember_uuid(memory, before.uuid)
        known = Memory.of("shop").known
        assert judge_mysql(before, offsets, known, is_reading=True).kind == "same"
        assert judge_mysql(before, offsets, known, is_reading=False).kind == "same"
        server.execute("RESET BINARY LOGS AND GTIDS", "INSERT INTO shop.t VALUES (2)")
        after = facts_of(database, read)
        # A connector that runs may hold a file that is gone: its GTIDs tell.
        assert "gtid_executed" in judge_mysql(after, offsets, known, is_reading=True).reason
        without = [{"offset": {"file": place.file, "pos": place.position}}]
        assert "it was reset or restored" in judge_mysql(facts_of(database, ""), without, known, is_reading=False).reason


def test_another_uuid_is_a_failover() -> None:
    known = Known("a", 0, "2026-01-01T00:00:00+00:00")
    found = judge_mysql(MySqlFacts("b", [("binlog.000001", 900)], has_read=True), [], known, is_reading=True)
    assert (found.kind, "failed over" in found.reason) == ("other", True)
