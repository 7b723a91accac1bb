"""A job that asks for all rows of a table gets those of the epochs that the backup keeps, each of them, or an error."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.recovery.past_records import bring_back
from cdc_assets.registry import names
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.backup.conftest import store as store
from cdc_assets_tests.recovery.epoch_bronze import expire_bronze, given
from cdc_assets_tests.recovery.epoch_bronze import original as original
from cdc_assets_tests.recovery.epoch_bronze import shop as shop
from cdc_assets_tests.recovery.epoch_history import EpochHistory, grow
from cdc_assets_tests.recovery.original import Original, quietly
from cdc_assets_tests.support.lake.lake import ID_V, Lake
from spark.bronze.change_log import all_rows
from spark.errors import BronzeExpiredError
from spark.specs import SilverSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

Place = tuple[int, int, int]


def spec_of(session: SparkSession, tmp_path: Path, shop: Source, original: Original) -> SilverSpec:
    past = names.past_path(Platform().lake, shop, shop.table("orders"))
    spec = Lake(session, tmp_path / "other").spec("orders", ID_V)
    return replace(spec, source="shop", table="orders", bronze_path=original.path, past=past)


def places(session: SparkSession, spec: SilverSpec) -> set[Place]:
    rows = all_rows(session, spec, DeltaTable(spec.bronze_path).version()).select("epoch", "partition", "offset").collect()
    found = {(row.epoch, row.partition, row.offset) for row in rows}
    assert len(found) == len(rows)
    return found


def test_rows_of_kept_epochs_are_all_there(
    session: SparkSession, tmp_path: Path, shop: Source, original: Original, store: ObjectStore
) -> None:
    history = EpochHistory(original, store)
    grow(history)
    wanted = {(row["epoch"], row["partition"], row["offset"]) for row in history.rows_from(1)}
    spec = spec_of(session, tmp_path, shop, original)
    expire_bronze(history, shop)
    history.expire(**given(history))
    with pytest.raises(BronzeExpiredError, match="the first 1650 records of .* are not brought back"):
        places(session, spec)
    bring_back(Chain(Platform(), shop), shop.table("orders"), quietly)
    assert places(session, spec) == wanted
    DeltaTable(spec.past).delete("offset = 800")
    with pytest.raises(BronzeExpiredError, match="the first 650 records of .* are gone, and .* holds 649 of them"):
        places(session, spec)


def test_of_earlier_epochs_alone_nothing_is_asked(
    session: SparkSession, tmp_path: Path, shop: Source, original: Original, store: ObjectStore
) -> None:
    history = EpochHistory(original, store)
    history.send(0, 700)
    history.append()
    history.back_up()
    history.day = 25
    expire_bronze(history, shop)
    history.begin_epoch({0: 300})
    history.append()
    history.back_up()
    history.day = 60
    history.expire(**given(history))
    spec = spec_of(session, tmp_path, shop, original)
    bring_back(Chain(Platform(), shop), shop.table("orders"), quietly)
    assert places(session, spec) == {(1, 0, offset) for offset in range(700, 1000)}
