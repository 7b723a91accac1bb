"""Bronze gives its old records to the backup, and the backup gives up old epochs: bronze first, and nobody lacks them."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from cdc_assets.backup.verification import verify_backup
from cdc_assets.clients.delta_log import bronze_committed
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.recovery.past_records import bring_back
from cdc_assets.registry import names
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.backup.bronze_tables import topic_of
from cdc_assets_tests.recovery.epoch_bronze import expire_bronze, given
from cdc_assets_tests.recovery.epoch_bronze import original as original
from cdc_assets_tests.recovery.epoch_bronze import shop as shop
from cdc_assets_tests.recovery.epoch_history import EpochHistory, grow, keys
from cdc_assets_tests.recovery.original import Original, held, quietly


@pytest.fixture
def history(original: Original, store: ObjectStore) -> EpochHistory:
    return EpochHistory(original, store)


def test_bronze_goes_first(history: EpochHistory, shop: Source) -> None:
    grow(history)
    before = keys(history.store)
    found = history.expire(**given(history))
    assert (found.base, found.reason) == (
        None,
        "bronze has not given all of the first 1000 records to the backup yet (bronze.keep)",
    )
    assert keys(history.store) == before
    assert expire_bronze(history, shop).given_up == {}
    assert history.expire(**given(history)).base is not None
    report = verify_backup(history.store, source="shop", table="orders", bronze_path=history.original.path, deep=True)
    assert (report.differences, report.behind) == ((), 0)


def test_what_comes_back_begins_where_the_backup_does(history: EpochHistory, shop: Source) -> None:
    grow(history)
    whole = held(history.original.path, "orders")
    assert expire_bronze(history, shop).rows_removed == 1000 + 650
    found = bring_back(Chain(Platform(), shop), shop.table("orders"), quietly)
    assert found is not None
    assert found.records == 1650, "as long as the backup keeps both epochs"
    history.expire(**given(history))
    found = bring_back(Chain(Platform(), shop), shop.table("orders"), quietly)
    assert found is not None
    assert (found.records, found.epoch) == (650, 1)
    past = held(names.past_path(Platform().lake, shop, shop.table("orders")), "orders")
    both = sorted([*past, *held(history.original.path, "orders")], key=lambda row: (row["partition"], row["offset"]))
    assert both == [row for row in whole if row["epoch"] == 1]


def test_bronze_that_holds_the_whole_epoch_needs_nothing(history: EpochHistory, shop: Source) -> None:
    """What it has given away is of the epoch before, all of it."""
    history.send(0, 700)
    history.append()
    history.back_up()
    history.day = 25
    assert expire_bronze(history, shop).rows_removed == 700
    history.begin_epoch({0: 300})
    history.append()
    history.back_up()
    history.day = 60
    assert history.expire(**given(history)).base is not None
    for _ in range(2):
        found = bring_back(Chain(Platform(), shop), shop.table("orders"), quietly)
        assert found is not None
        assert (found.records, found.epoch) == (0, 1)
    past = names.past_path(Platform().lake, shop, shop.table("orders"))
    assert DeltaTable(past).to_pyarrow_table().num_rows == 0
    told = bronze_committed(past)
    assert told is not None
    assert told.topics[topic_of("orders")].epoch == 1
    assert expire_bronze(history, shop).given_up == {}, "and it goes on to give"
    found = bring_back(Chain(Platform(), shop), shop.table("orders"), quietly)
    assert found is not None
    assert (found.records, found.epoch) == (300, 1)


def test_bronze_keeps_what_the_backup_has_given_up_before(history: EpochHistory, shop: Source) -> None:
    """`bronze.keep` was declared later."""
    grow(history)
    history.expire()
    done = expire_bronze(history, shop)
    assert done.rows_removed == 0
    assert done.given_up["old records of orders"] == (
        "bronze has records of epochs before 1, which its backup does not keep: all stay"
    )
