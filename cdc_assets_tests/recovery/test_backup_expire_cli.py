"""`cdc backup expire` and the maintenance asset: what they remove, what they only tell, and what they ask the lake's Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from cdc_assets.backup.manifest_chain import find_base
from cdc_assets.backup.object_layout import reading_key
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.table_concurrency import table_lock
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.defs.upkeep_assets import build_maintenance_asset
from cdc_assets.registry import names
from cdc_assets.registry.errors import ServiceError
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.backup.bronze_tables import topic_of
from cdc_assets_tests.recovery.command_line import cdc
from cdc_assets_tests.recovery.conftest import SHOP
from cdc_assets_tests.recovery.epoch_history import EpochHistory, keys
from cdc_assets_tests.recovery.original import Original
from cdc_assets_tests.support.declared import declare_source
from cdc_assets_tests.support.fakes import FakeKafka, FakeTopic

TABLES = "tables: [{name: public.orders}, {name: public.customers, backup: {}}]"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    text = SHOP.format(bucket=tmp_path / "bucket").replace("prefix: lake}}", "prefix: lake}, keep: 30d}")
    return declare_source(tmp_path, monkeypatch, text[: text.index("tables:")] + TABLES)


@pytest.fixture
def history(tmp_path: Path, shop: Source, store: ObjectStore, cluster: FakeKafka) -> EpochHistory:
    """Its records are a year old, and its second epoch is whole in the backup; nobody has noted that yet."""
    found = EpochHistory(Original(names.bronze_path(str(tmp_path / "lake"), shop)), store, day=-700)
    found.send(0, 700)
    found.append()
    found.begin_epoch({0: 600, 1: 50})
    found.append()
    found.back_up()
    logs: dict[int, Any] = {partition: [None] * end for partition, end in found.topic_ends.items()}
    cluster.topics[topic_of("orders")] = FakeTopic(found.original.topic_id, logs)
    return found


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeKafka:
    found = FakeKafka()
    monkeypatch.setattr(Platform, "lake_kafka", lambda _: found)
    return found


def test_what_would_go_is_told_and_then_goes(history: EpochHistory) -> None:
    before = keys(history.store)
    code, [told], said = cdc("backup", "expire", "--dry-run")
    assert (code, said) == (0, "")
    assert keys(history.store) == before
    assert (told["table"], told["begins"], told["held"]) == ("orders", 1, "")
    assert told["objects"] == len([key for key in before if "/0000" in key or "orders+0+" in key]) > 0
    assert cdc("backup", "expire", "shop") == (0, [told], "")
    assert len(keys(history.store)) == len(before) - told["objects"] + 2, "the base, and where the reading ended"
    assert cdc("backup", "verify", "--quick")[0] == 0
    code, _, said = cdc("restore", "shop", "orders", "--to", "2020-01-01T00:00:00Z", "--into", "elsewhere", "--dry-run")
    assert code == 2
    assert f"the earliest moment is {told['earliest']} (backup.keep)" in said
    code, [again], _ = cdc("backup", "expire")
    assert (code, again["objects"]) == (0, 0)


def test_a_reading_that_the_topic_has_and_the_backup_has_not(history: EpochHistory, cluster: FakeKafka) -> None:
    cluster.topics[topic_of("orders")].logs[0].append(None)
    code, [told], _ = cdc("backup", "expire")
    assert (code, told["objects"]) == (0, 0)
    assert told["held"] == "the reading that epoch 1 begins with is not whole in the backup yet"
    assert reading_key("shop", "orders", 1) in keys(history.store)


def test_who_cannot_ask_removes_nothing(history: EpochHistory, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(_: Platform) -> FakeKafka:
        raise ServiceError("lake:9092 does not answer")

    monkeypatch.setattr(Platform, "lake_kafka", lost)
    before = keys(history.store)
    code, [told], said = cdc("backup", "expire")
    assert (code, told["objects"], told["held"]) == (1, 0, "lake:9092 does not answer")
    assert "orders: lake:9092 does not answer" in said
    assert keys(history.store) == before


def test_a_backup_that_is_being_written_is_left_alone(history: EpochHistory, monkeypatch: pytest.MonkeyPatch) -> None:
    from cdc_assets.backup import old_epochs

    monkeypatch.setattr(old_epochs, "_BUSY_SECONDS", 0.0)
    with table_lock("backup", "shop", "orders"):
        code, [told], _ = cdc("backup", "expire")
    assert code == 1
    assert "backup/shop/orders is held by process" in told["held"]
    assert find_base(history.store, "shop", "orders") is None


def test_without_a_declaration_there_is_nothing_to_do(history: EpochHistory, tmp_path: Path) -> None:
    file = tmp_path / "sources/shop.yaml"
    file.write_text(file.read_text().replace(", keep: 30d", ""))
    code, _, said = cdc("backup", "expire")
    assert code == 2
    assert "declare backup: {keep: 90d} first" in said
    assert find_base(history.store, "shop", "orders") is None


def test_the_maintenance_asset_removes_and_tells(history: EpochHistory, shop: Source) -> None:
    def materialize() -> dict[str, Any]:
        done = dg.materialize([build_maintenance_asset(shop)], resources={"platform": PlatformResource()})
        [event] = done.asset_materializations_for_node("cdc_maintenance_shop")
        return dict(event.metadata)

    told = materialize()
    assert told["cdc/backup_objects_removed"].value > 0
    assert told["cdc/backup_bytes_removed"].value > 0
    [row] = [record.data for record in told["cdc/backup"].records]
    assert (row["table"], row["begins"], row["held"]) == ("orders", 1, "")
    assert find_base(history.store, "shop", "orders") is not None
    assert materialize()["cdc/backup_objects_removed"].value == 0
