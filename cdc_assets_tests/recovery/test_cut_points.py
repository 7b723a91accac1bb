"""`--to CUT`. Oracle: the rows that were appended by the time of the cut, counted by hand."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from cdc_assets.backup.kept_cuts import cut_key, names_of_cuts, verify_cuts
from cdc_assets.backup.verification import source_in_store
from cdc_assets.clients.object_store import LocalStore, ObjectStore
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.recovery.cut_manifest import CutEntry, CutManifest, keep_cut, name_of_cut
from cdc_assets.recovery.restore_point import keep_cuts, restore_points
from cdc_assets.recovery.restored_bronze import restore_bronze
from cdc_assets.recovery.restored_source import RestoreWish, make_request
from cdc_assets.registry.errors import BackupError, RefusalError
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.recovery.conftest import Ask
from cdc_assets_tests.recovery.original import Original, held, quietly, rows, states

NOW = datetime.now(timezone.utc).replace(microsecond=0)


def cut_of(original: Original, made_at: datetime, *tables: str) -> CutManifest:
    """What is committed now, as `cdc cut make` writes it down."""
    committed = states(original.path)
    entries = [_entry(table, [state for state in committed.values() if state.table == table]) for table in tables]
    return CutManifest(name_of_cut("shop", made_at), "shop", made_at, "0/1", tuple(entries))


def _entry(table: str, found: list[Any]) -> CutEntry:
    topics = {
        f"core.shop.public.{table}": {
            "id": state.topic_id,
            "epoch": state.epoch,
            "records": state.records,
            "ends": {str(p): end for p, end in state.positions.items()},
        }
        for state in found
    }
    return CutEntry("silver", table, f"silver/shop/{table}", 1, "t", 1, 0, topics)


def keep(lake: str, shop: Source, cut: CutManifest) -> str:
    keep_cut(lake, shop, cut, timedelta(days=7))
    return cut.cut


def backup_contents(store: ObjectStore) -> dict[str, bytes]:
    return {item.key: store.get(item.key) for item in store.list("shop/orders/")}


def test_the_restored_tables_end_where_the_cut_does(
    store: ObjectStore, original: Original, shop: Source, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = str(tmp_path / "was")
    original.append("orders", [*rows(0, 60), *rows(0, 40, partition=1)], ends={0: 60, 1: 40})
    cut = keep(lake, shop, cut_of(original, NOW, "orders", "customers"))
    expected = held(original.path, "orders")
    original.append("orders", rows(60, 30), ranges={0: (60, 90), 1: (40, 40)})
    original.append("customers", rows(0, 5), ends={0: 5})
    for table in ("orders", "customers"):
        original.back_up(store, table)
    assert keep_cuts(lake, shop, store) == 1
    assert keep_cuts(lake, shop, store) == 0
    # The lake, and its table of cuts, are not needed any more.
    asked, listing = list[str](), LocalStore.list

    def note(store: LocalStore, prefix: str, **more: Any) -> Any:
        asked.append(prefix)
        return listing(store, prefix, **more)

    monkeypatch.setattr(LocalStore, "list", note)
    request = make_request(Chain(Platform(lake_root=str(tmp_path / "lake")), shop), RestoreWish(to=cut))
    restore_bronze(request, quietly)
    assert sorted(prefix for prefix in asked if prefix in ("shop/orders/", "shop/customers/")) == [
        "shop/customers/",
        "shop/orders/",
    ], "a listing each"
    assert held(request.path, "orders") == expected
    assert len(expected) == 100
    assert held(request.path, "customers") == []


def test_what_the_backup_does_not_hold_is_refused(
    store: ObjectStore, original: Original, shop: Source, ask: Ask, tmp_path: Any
) -> None:
    lake, [orders, _] = str(tmp_path / "was"), shop.tables
    original.append("orders", rows(0, 10), ends={0: 10})
    original.back_up(store, "orders")
    original.append("orders", rows(10, 10), ranges={0: (10, 20)})
    cut = keep(lake, shop, cut_of(original, NOW, "orders"))
    with pytest.raises(RefusalError, match=f"the backup of shop has no cut {cut}; its newest: none"):
        restore_points(store, shop, [orders], cut)
    assert keep_cuts(lake, shop, store) == 0, "a kept cut tells how far the backup goes"
    original.back_up(store, "orders")
    assert keep_cuts(lake, shop, store) == 1
    with pytest.raises(RefusalError, match=f"cut {cut} has no table customers: it was declared later"):
        restore_points(store, shop, shop.tables[1:], cut)
    whole = backup_contents(store)
    newest = max(key for key in whole if "_manifests" in key)
    store.delete(newest)
    with pytest.raises(RefusalError, match=f"shop/orders ends before cut {cut}: name an older one, or run the backup"):
        restore_points(store, shop, [orders], cut)
    store.put(newest, whole[newest])
    request = ask(store, points=restore_points(store, shop, [orders], cut))
    restore_bronze(request, quietly)
    assert len(held(request.path, "orders")) == 20


def test_cuts_stay_in_the_backup_as_long_as_in_the_lake(
    store: ObjectStore, original: Original, shop: Source, tmp_path: Any
) -> None:
    lake = str(tmp_path / "was")
    original.append("orders", rows(0, 10), ends={0: 10})
    old = keep(lake, shop, cut_of(original, NOW - timedelta(days=6, hours=12), "orders"))
    new = keep(lake, shop, cut_of(original, NOW, "orders"))
    original.back_up(store, "orders")
    keep_cuts(lake, shop, store)
    assert names_of_cuts(store, "shop") == [old, new]
    assert verify_cuts(store, "shop") == ()
    assert source_in_store(store, "shop", ["orders", "customers"]).foreign == ()
    # Of a cut that is older than any is kept, and of a lake that is gone.
    ancient = cut_of(original, NOW - timedelta(days=8), "orders")
    store.put_if_absent(cut_key("shop", ancient.cut), store.get(cut_key("shop", old)))
    keep_cuts(lake, shop, store)
    assert names_of_cuts(store, "shop") == [old, new]


def test_a_cut_that_was_changed_is_named(store: ObjectStore, original: Original, shop: Source, tmp_path: Any) -> None:
    lake = str(tmp_path / "was")
    original.append("orders", rows(0, 10), ends={0: 10})
    cut = keep(lake, shop, cut_of(original, NOW, "orders"))
    original.back_up(store, "orders")
    keep_cuts(lake, shop, store)
    key = cut_key("shop", cut)
    said = json.loads(store.get(key))
    said["tables"]["orders"]["core.shop.public.orders"]["ends"]["0"] = 3
    store.put(key, json.dumps(said).encode())
    with pytest.raises(BackupError, match=f"{key} has another content than the digest in it says"):
        restore_points(store, shop, shop.tables[:1], cut)
    assert verify_cuts(store, "shop") == (f"{key} has another content than the digest in it says",)
    store.put(key, b"[]")
    assert verify_cuts(store, "shop")[0].startswith(f"{key} is no cut of a backup")
