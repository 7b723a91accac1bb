"""A MySQL whose connector is gone: the plan asks the server whether it goes on, as it does of every kind that can be asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.backup.platform_log import PlatformState, write_state
from cdc_assets.capture.incarnations import binlog_incarnation
from cdc_assets.capture.incarnations.binlog_incarnation import MySqlFacts
from cdc_assets.clients.opened_store import open_store
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.recovery import restored_connectors
from cdc_assets.recovery.restored_connectors import EPOCH, GOES_ON, plan_connectors, restore_connectors
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.loader import load_source
from cdc_assets.registry.source_declaration import CapturedSource
from cdc_assets_tests.support.fakes import FakeKafka, FakeTopic

TOPIC, CAPTURE = "shop.shop.orders", "shop-capture"
SHOP = """
source: shop
database: {{{database}, host: db, user: cdc, password: {{secret: shop}}}}
backup: {{store: {{kind: local, bucket: {bucket}, prefix: lake}}}}
tables: [{{name: shop.orders, keys: [id], columns: {{id: bigint not null}}}}]
"""
OFFSET = {"partition": {"server": "shop"}, "offset": {"file": "binlog.000009", "pos": 900}}
UUID = "11111111-2222-3333-4444-555555555555"


@dataclass
class EmptyConnect:
    """A Connect worker that has lost its capture; the mirror is there."""

    def config(self, name: str) -> dict[str, str] | None:
        return None if name == CAPTURE else {"name": name}

    def status(self, _: str) -> None:
        """None that runs."""

    def offsets(self, _: str) -> tuple[Mapping[str, Any], ...]:
        return ()


def declare(folder: Path, monkeypatch: pytest.MonkeyPatch, database: str, *, topic_id: str = "kept") -> CapturedSource:
    """The source, whose backup knows of its connector; `topic_id`: which topic there is by now."""
    for name in ("HOME", "LAKE", "SOURCES"):
        monkeypatch.setenv(f"CDC_{name}", str(folder / name.lower()))
    for cluster in ("CORE", "LAKE"):
        monkeypatch.setenv(f"CDC_{cluster}_BOOTSTRAP", "127.0.0.1:9")
    file = folder / "sources" / "shop.yaml"
    file.parent.mkdir()
    file.write_text(SHOP.format(database=database, bucket=folder / "bucket"))
    source = load_source(file)
    assert isinstance(source, CapturedSource)
    assert source.backup is not None
    store = open_store(source.backup.store)
    store.create_bucket()
    server, topics = {"system": UUID, "timeline": 0, "at": ""}, {"core": {TOPIC: {"id": "kept"}}}
    write_state(store, "shop", PlatformState("", {}, {CAPTURE: [OFFSET]}, topics, {}, server=server))
    kafka = FakeKafka({TOPIC: FakeTopic(topic_id, {0: []})})
    monkeypatch.setattr(Platform, "core_kafka", lambda *_: kafka)
    for which in ("connect", "core_connect"):
        monkeypatch.setattr(Platform, which, lambda *_: EmptyConnect())
    return source


def answer(monkeypatch: pytest.MonkeyPatch, facts: MySqlFacts) -> None:
    """What the server says."""
    monkeypatch.setattr(binlog_incarnation, "facts_of", lambda *_: facts)


@pytest.mark.parametrize(
    ("facts", "way", "reason"),
    [
        (MySqlFacts(UUID, [("binlog.000009", 1200)]), GOES_ON, "from the offsets of the backup"),
        (MySqlFacts(UUID, [("binlog.000010", 1200)]), EPOCH, "begins with binlog.000010"),
        (MySqlFacts("another", [("binlog.000009", 1200)]), EPOCH, f"{UUID} was read: it failed over or was replaced"),
    ],
)
def test_a_mysql_is_asked_whether_its_log_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, facts: MySqlFacts, way: str, reason: str
) -> None:
    source = declare(tmp_path, monkeypatch, "kind: mysql")
    answer(monkeypatch, facts)
    (_, plan) = plan_connectors(Chain(Platform(), source))
    assert (plan.way, reason in plan.reason) == (way, True), plan.reason


def test_a_topic_that_is_another_one_opens_an_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = declare(tmp_path, monkeypatch, "kind: mysql", topic_id="another")
    opened, said = list[str](), list[str]()

    def note(chain: Chain[CapturedSource], reason: str, __: object) -> dict[str, int]:
        opened.append(f"{chain.source.name}: {reason}")
        return {TOPIC: 1}

    monkeypatch.setattr(restored_connectors, "open_epoch", note)
    (_, plan) = restore_connectors(Chain(Platform(), source), said.append)
    assert plan.way == EPOCH
    assert opened == [f"shop: {TOPIC} of the core are not the topics of the backup: what they alone held is gone"]
    assert said[-1] == f"{TOPIC}: epoch 1"


def test_a_kind_without_epochs_is_told_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = declare(tmp_path, monkeypatch, "kind: sqlserver, dbname: shop", topic_id="another")
    with pytest.raises(RefusalError, match="no new epoch is opened for kind sqlserver; cdc apply shop begins anew"):
        plan_connectors(Chain(Platform(), source))
