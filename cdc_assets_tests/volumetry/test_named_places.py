"""`cdc wait` of every kind of source: it ends well only when a place that has a name is in silver."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from cdc_assets.cli import app
from cdc_assets.errors import DatabaseError
from cdc_assets.resources.databases.mysql import MySqlDatabase
from cdc_assets.resources.platform import Platform
from cdc_assets.volumetry import log_position, marker_row, named_place
from cdc_assets_tests.support.declared import declare
from cdc_assets_tests.support.delta_logs import append_bronze, write_silver
from cdc_assets_tests.support.fakes import FakeKafka, FakeTopic

RECORD = (b"k", b"{}")
TABLE = "tables: [{name: shop.orders, keys: [id], columns: {id: bigint not null}}]\n"
MYSQL = f"source: shop\ndatabase: {{kind: mysql, host: db, user: cdc, password: {{secret: shop}}}}\n{TABLE}"
ORACLE = MYSQL.replace("kind: mysql, host: db", "kind: oracle, host: db, dbname: shop")
TOPICS = "source: shop\nkind: topics\ncluster: lake\n" + TABLE.replace(
    "name: shop.orders", "name: orders, topic: t, envelope: json"
)
MARKER = "reconciliation: {marker: shop.marker}\n"
CORE, LAKE = "shop.shop.orders", "core.shop.shop.orders"
PLACE = "binlog.000001:1505495"
FAILED = SimpleNamespace(running=False, state="RUNNING", failed=True, trace=["MySqlErrorHandler: no grant"], tasks=["FAILED"])


class Connect:
    """A connector that has stopped at a place of the binlog."""

    url = "http://connect"

    def __init__(self, at: int) -> None:
        self.at = at

    def offsets(self, name: str) -> list[dict[str, Any]]:
        return [{"partition": {"server": name}, "offset": {"file": "binlog.000001", "pos": self.at}}]

    def status(self, name: str) -> Any:
        return FAILED


class Mirror:
    """MirrorMaker, which has copied all that there is."""

    def __init__(self, kafka: FakeKafka) -> None:
        self.kafka = kafka

    def offsets(self, name: str) -> list[dict[str, Any]]:
        last = len(self.kafka.topics[CORE].logs[0]) - 1
        return [{"partition": {"topic": CORE, "partition": 0}, "offset": {"offset": last}}]


class Reader:
    """A database that takes the marker's row; its connector brings it, or does not."""

    def __init__(self, kafka: FakeKafka | None) -> None:
        self.kafka = kafka

    def mark(self, table: Any, marker: str) -> None:
        if self.kafka is not None:
            self.kafka.topics["shop.shop.marker"] = FakeTopic("m", {0: [(b"k", marker.encode())]})


@pytest.fixture
def topics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeKafka:
    """Three records, all of them in silver: whoever looks no further than the topics finds nothing missing."""
    found = FakeKafka({name: FakeTopic("id", {0: [RECORD] * 3}) for name in (CORE, LAKE, "t")})
    for cluster in ("lake_kafka", "core_kafka"):
        monkeypatch.setattr(Platform, cluster, lambda *_: found)
    monkeypatch.setattr(Platform, "lake_connect", lambda _: Mirror(found))
    for number, (table, topic) in enumerate((("shop__orders", LAKE), ("orders", "t"))):
        append_bronze(tmp_path / "lake/bronze/shop", topic, table, "id", 0, 3, version=number)
        write_silver(tmp_path / f"lake/silver/shop/{table}", topic, table, "id", 3)
    monkeypatch.setattr(MySqlDatabase, "emit_marker", lambda *_: PLACE)
    for module in (log_position, marker_row):
        for name in ("_FIRST_POLL_SECONDS", "_LONGEST_POLL_SECONDS", "_POLL_SECONDS"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, 0.01)
    return found


def waited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, at: int = 0) -> Any:
    declare(tmp_path, monkeypatch, text)
    monkeypatch.setattr(Platform, "core_connect", lambda *_: Connect(at))
    return CliRunner().invoke(app, ["wait", "shop", "--timeout", "0.3", "-o", "json"])


def test_a_connector_that_has_failed_is_waited_for(topics: FakeKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It said `everything committed before none is in silver`, and ended with 0, for as long as the connector stood still."""
    ended = waited(tmp_path, monkeypatch, MYSQL, at=1505494)
    assert ended.exit_code == 1
    assert f"shop-capture is at binlog.000001:1505494, not yet at {PLACE}" in ended.stderr
    assert "has failed: MySqlErrorHandler: no grant" in ended.stderr


def test_it_ends_well_when_the_place_is_in_silver(topics: FakeKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = waited(tmp_path, monkeypatch, MYSQL, at=1505495)
    assert ended.exit_code == 0, (ended.output, ended.exception)
    assert (ended.exit_code, json.loads(ended.stdout)["sources"]["shop"]["position"]) == (0, PLACE)


def test_what_came_after_the_last_fold_is_waited_for(topics: FakeKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (CORE, LAKE):
        topics.topics[name].logs[0].append(RECORD)
    ended = waited(tmp_path, monkeypatch, MYSQL, at=1505495)
    assert (ended.exit_code, "bronze/shop/shop__orders" in ended.stderr) == (1, True)


@pytest.mark.parametrize("text", [ORACLE, ORACLE.replace("oracle", "sqlserver")])
def test_a_place_without_a_name_is_an_error(
    topics: FakeKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    ended = waited(tmp_path, monkeypatch, text)
    assert ended.exit_code != 0
    assert "declare a marker table" in str(ended.exception or ended.stderr)


@pytest.mark.parametrize("text", [ORACLE + MARKER, MYSQL + MARKER])
@pytest.mark.parametrize("comes", [True, False])
def test_the_row_of_a_marker_table_is_waited_for(
    topics: FakeKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, comes: bool
) -> None:
    """Of MySQL where the role may not write a mark of its own."""

    def refuse(*_: Any) -> str:
        raise DatabaseError("MySQL at db:3306: Access denied; you need the RELOAD privilege")

    monkeypatch.setattr(MySqlDatabase, "emit_marker", refuse)
    monkeypatch.setattr(named_place, "open_reader", lambda _: Reader(topics if comes else None))
    ended = waited(tmp_path, monkeypatch, text)
    if comes:
        assert ended.exit_code == 0, (ended.output, ended.exception)
        assert json.loads(ended.stdout)["sources"]["shop"]["position"] == "shop.shop.marker 0:0"
    else:
        assert (ended.exit_code, "did not arrive in topic shop.shop.marker" in ended.stderr) == (1, True)


def test_a_mark_that_nobody_may_write_is_an_error(topics: FakeKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> str:
        raise DatabaseError("MySQL at db:3306: Access denied; you need the RELOAD privilege")

    monkeypatch.setattr(MySqlDatabase, "emit_marker", refuse)
    ended = waited(tmp_path, monkeypatch, MYSQL)
    assert ended.exit_code != 0
    assert "RELOAD" in str(ended.exception or ended.stderr)


def test_topics_that_nobody_fills_from_here_have_their_ends_as_a_place(
    topics: FakeKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = waited(tmp_path, monkeypatch, TOPICS)
    assert ended.exit_code == 0, (ended.output, ended.exception)
    assert (ended.exit_code, json.loads(ended.stdout)["sources"]["shop"]["position"]) == (0, "t 0:3")
    topics.topics.clear()
    ended = CliRunner().invoke(app, ["wait", "shop", "--timeout", "0.3"])
    assert ended.exit_code != 0
    assert "none of its topics is there yet: t" in str(ended.exception or ended.stderr)


def test_what_is_not_asked_for_by_people_is_as_it_was(topics: FakeKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mirror's asset waits for what the topics of such a source hold, and for no marker."""
    from cdc_assets.registry_files.loader import load_source

    source = load_source(declare(tmp_path, monkeypatch, ORACLE))
    began = time.monotonic()
    position = log_position.carry_to_lake(Platform(), source, deadline=5)
    assert (position.lsn, position.offsets, time.monotonic() - began < 5) == ("none", {LAKE: {0: 3}}, True)
