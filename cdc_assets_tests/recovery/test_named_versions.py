"""Versions of silver that somebody reads by their number stay readable, however old; delta-rs reads them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cdc_assets.chain.windowed_results import windows_of
from cdc_assets.clients import delta_log
from cdc_assets.clients.delta_log import silver_committed
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.recovery.maintenance import find_named_versions, maintain_source, tables_in_lake
from cdc_assets.registry import names
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.recovery.shop_logs import SOURCE, Shop, write
from cdc_assets_tests.support.declared import declare_source
from spark.table.commit_metadata import Folded, silver_metadata
from spark.table.needed_versions import NamedVersion
from spark.upkeep import file_rewrite
from spark.upkeep import table_maintenance as steps
from spark.upkeep.window_results import KeptResults

WINDOWED = SOURCE.replace(
    "{name: public.orders}",
    "{name: public.orders, history: scd2, windows: [{name: daily, event_time: at, size: 1d, measures: {n: count}}]}",
)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setattr(file_rewrite, "MOST_SMALL", 1)
    monkeypatch.setattr(steps, "CHECKPOINT_FROM", 1)
    return Shop(tmp_path, declare_source(tmp_path, monkeypatch, WINDOWED, Source))


def windows_at(shop: Shop, version: int) -> None:
    (windows,) = windows_of(shop.source)
    for path in (windows.spec(shop.lake).path, windows.spec(shop.lake).panes_path):
        write(Path(path), KeptResults(version, "mark", None, "digest", f"of{version}").to_metadata())


def history_as(shop: Shop, folded: Folded) -> None:
    path = names.history_path(shop.lake, shop.source, shop.source.table("orders"))
    write(Path(path), silver_metadata("history", folded, {}))


def grow_old(shop: Shop) -> None:
    for file in Path(shop.lake).rglob("*"):
        os.utime(file, (time.time() - 864_000,) * 2)
    delta_log._KEPT.clear()


def test_what_windows_and_a_history_are_of_stays(shop: Shop) -> None:
    folds = []
    for number in range(12):
        shop.append("orders")
        shop.fold("orders")
        folds.append(silver_committed(str(shop.silver("orders"))))
        if number == 3:
            windows_at(shop, 3)
    assert folds[6] is not None
    history_as(shop, folds[6])
    expected = {
        3: NamedVersion(3, "", "windows orders__daily are of it"),
        6: NamedVersion(6, "", "the history of orders stands there"),
    }
    assert {named.version: named for named in find_named_versions(shop.lake, shop.source)["silver/shop/orders"]} == expected
    (windows,) = windows_of(shop.source)
    spec = windows.spec(shop.lake)
    places = {path.removeprefix(f"{shop.lake}/") for path in (spec.path, spec.panes_path)}
    assert places <= {table.name for table in tables_in_lake(shop.lake, shop.source)}
    grow_old(shop)
    silver = str(shop.silver("orders"))
    for _ in range(2):
        done = {table.name: result for table, result in maintain_source(Chain(Platform(), shop.source))}
        grow_old(shop)
    assert done["silver/shop/orders"].given_up == {}
    assert [DeltaTable(silver, version=version).to_pyarrow_table().num_rows for version in (3, 6)] == [4, 7]
    assert silver_committed(silver) == folds[-1]

    # Both have come on: nobody names them any more.
    assert folds[-1] is not None
    history_as(shop, folds[-1])
    windows_at(shop, DeltaTable(silver).version())
    grow_old(shop)
    for _ in range(2):
        list(maintain_source(Chain(Platform(), shop.source)))
        grow_old(shop)
    held = {file.name for file in Path(silver).glob("*.parquet")}
    assert held == {Path(uri).name for uri in DeltaTable(silver).file_uris()}
    assert silver_committed(silver) == folds[-1]
