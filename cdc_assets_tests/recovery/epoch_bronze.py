"""The source shop whose bronze gives its old records to the backup, and that it does so on a day of a history."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets.clients.delta_log import bronze_floors
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.recovery.maintenance import maintain_source
from cdc_assets.recovery.old_bronze_records import find_old_records
from cdc_assets.registry import names
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.backup.bronze_tables import topic_of
from cdc_assets_tests.recovery.conftest import SHOP
from cdc_assets_tests.recovery.epoch_history import DAY, START, EpochHistory
from cdc_assets_tests.recovery.lake_reader import Reader
from cdc_assets_tests.recovery.original import Original
from cdc_assets_tests.support.declared import declare_source
from spark.upkeep.maintenance_spec import Maintained


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    return declare_source(tmp_path, monkeypatch, SHOP.format(bucket=tmp_path / "bucket") + "bronze: {keep: 20d}\n")


@pytest.fixture
def original(tmp_path: Path, shop: Source) -> Original:
    return Original(names.bronze_path(str(tmp_path / "lake"), shop))


def expire_bronze(history: EpochHistory, shop: Source) -> Maintained:
    """Everything has been read, and maintenance runs on the history's day."""
    Reader(shop).read("orders")
    now = START + history.day * DAY
    ((_, done),) = maintain_source(Chain(Platform(), shop), ["bronze/shop"], lambda chain: find_old_records(chain, now))
    return done


def given(history: EpochHistory) -> dict[str, object]:
    return {"gives": True, "floor": bronze_floors(history.original.path).get(topic_of("orders"))}
