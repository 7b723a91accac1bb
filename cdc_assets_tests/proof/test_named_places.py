"""`cdc wait` of every kind of source: it ends well only when a place that has a name is in silver."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from typer.testing import CliRunner

from cdc_assets.capture import log_position, named_log_position
from cdc_assets.capture.log_position import CaughtUpTimeoutError
from cdc_assets.chain import table_reload
from cdc_assets.chain.bronze_append import AppendPlan
from cdc_assets.cli.cdc_command import app
from cdc_assets.clients.databases.mysql import MySqlDatabase
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs import capture_assets
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.proof.caught_up import Awaited, wait_caught_up
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.loader import load_source
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
FAILED = SimpleNamespace(
    running=False, state="RUNNING", failed=True, meets_it_again=False, trace=["MySqlErrorHandler: no grant"], tasks=["FAILED"]
)


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

    url = "http://mirror"

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
    for module in (log_position, named_log_position):
        for name in ("_FIRST_POLL_SECONDS", "_LONGEST_POLL_SECONDS", "_ROW_POLL_SECONDS", "_OFFSET_POLL_SECONDS"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, 0.01)
    return found


def source_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, at: int = 0) -> Any:
    monkeypatch.setattr(Platform, "core_connect", lambda *_: Connect(at))
    return load_source(declare(tmp_path, monkeypatch, text))


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
    monkeypatch.setattr(named_log_position, "open_reader", lambda _: Reader(topics if comes else None))
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


@pytest.mark.parametrize("text", [ORACLE, MYSQL])
def test_who_goes_on_without_a_place_says_so(
    topics: FakeKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """What the topics held was taken for all that there is, without a word."""

    def refuse(*_: Any) -> str:
        raise DatabaseError("MySQL at db:3306: Access denied; you need the RELOAD privilege")

    monkeypatch.setattr(MySqlDatabase, "emit_marker", refuse)
    source, told = source_of(tmp_path, monkeypatch, text), list[str]()
    position = named_log_position.carry_or_tell(Chain(Platform(), source), deadline=5, say=told.append)
    assert (position.lsn, position.offsets) == ("", {LAKE: {0: 3}})
    (line,) = told
    assert line.startswith("shop: only what its topics hold now is waited for, since its place in the log is not known: ")
    assert (
        line.endswith("RELOAD privilege" if text is MYSQL else "shop.orders, and cdc apply") or "declare a marker table" in line
    )


def test_the_main_job_waits_for_the_place(topics: FakeKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`cdc up` waited for what the topics held: a MySQL connector that had failed was `all of 1 table in silver`."""
    source, told = source_of(tmp_path, monkeypatch, MYSQL, at=1505494), list[str]()
    with pytest.raises(CaughtUpTimeoutError, match=f"not yet at {PLACE}"):
        wait_caught_up(Platform(), (source,), timeout=0.3, awaited=Awaited(backup=True), say=told.append)
    monkeypatch.setattr(Platform, "core_connect", lambda *_: Connect(1505495))
    assert wait_caught_up(Platform(), (source,), timeout=5)["shop"].lsn == PLACE
    assert told == ["connector shop-capture has failed: MySqlErrorHandler: no grant; ./cdc restart shop-capture"]


def test_bronze_goes_on_behind_the_place_of_the_rows(topics: FakeKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next epoch begins behind what the tables' topics held, whether or not their rows had come."""
    source = source_of(tmp_path, monkeypatch, MYSQL, at=1505494)
    monkeypatch.setattr(table_reload, "_CARRY_DEADLINE_SECONDS", 0.3)
    for step in ("begin", "go_on"):
        monkeypatch.setattr(table_reload.onboarding, step, lambda *_, **__: None)
    with pytest.raises(CaughtUpTimeoutError, match=f"not yet at {PLACE}"):
        table_reload.reload_tables(Chain(Platform(), source), source.tables, AppendPlan({}), print, table_reload.KnownTopics())


@pytest.mark.parametrize(("text", "told"), [(MYSQL, PLACE), (ORACLE, "not known: only what its topics held was waited for")])
def test_the_mirror_says_up_to_where_it_waited(
    topics: FakeKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, told: str
) -> None:
    """It said `none`, and had waited for what its topics held."""
    source = source_of(tmp_path, monkeypatch, text, at=1505495)
    applied = SimpleNamespace(name="shop-mirror", summary="unchanged", status=None)
    answers = {"judge_source": None, "bring_connector": applied, "metadata_of_applied": {}, "metadata_of_status": {}}
    for name, answer in answers.items():
        monkeypatch.setattr(capture_assets, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(capture_assets, "mirror_config", lambda _: {})
    asset = capture_assets.build_mirror_assets(source)
    done = dg.materialize([asset], resources={"platform": PlatformResource(lake_root=str(tmp_path / "lake"))})
    (event,) = done.get_asset_materialization_events()
    assert event.materialization.metadata["cdc/source_lsn_reached"].value == told
