"""A backup that ends before it did: a kept cut, a plan that is left over or this machine tell, where what names the newest
manifest was set back with it."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cdc_assets.backup.backup_copy import backup_table
from cdc_assets.backup.backup_end import forget_ends
from cdc_assets.backup.kept_cuts import KeptCut, write_cuts
from cdc_assets.backup.manifest import Manifest, newest_of_table
from cdc_assets.backup.verification import VerifyReport, verify_backup
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.recovery.backed_up_table import find_backup
from cdc_assets_tests.backup.bronze_tables import NOON, Bronze, records
from cdc_assets_tests.backup.faulty_store import FaultyStore, KilledError
from cdc_assets_tests.backup.runs import run

KEYS = [f"shop/orders/_manifests/0000-{10 * n:020d}.json" for n in range(4)]
CUT = "shop-20261121T140000Z"


@pytest.fixture
def filled(store: ObjectStore, bronze: Bronze) -> ObjectStore:
    """Three batches: offsets 0-9, 10-19, 20-29."""
    for n in range(3):
        bronze.append("orders", records(10 * n, 10, timestamp=NOON + n * 3_600_000))
        run(store, bronze)
    return store


def keep_cut(store: ObjectStore, records: int = 30, *, topic_id: str = "topic-id-1", epoch: int = 0) -> None:
    topics = {"core.shop.public.orders": {"id": topic_id, "epoch": epoch, "records": records, "ends": {"0": records}}}
    write_cuts(store, "shop", [KeptCut(CUT, "shop", "2026-11-21T14:00:00+00:00", "0/1", {"orders": topics})], oldest="")


def check(store: ObjectStore) -> VerifyReport:
    """With nothing left but the bucket; a restore tells the same of the table's end."""
    report = verify_backup(store, source="shop", table="orders", bronze_path=None, deep=True)
    assert find_backup(store, "shop", "orders").torn == report.differences
    return report


def set_back(store: ObjectStore, batches: int) -> None:
    """The newest manifests go, and what names the newest names the one before them."""
    for key in KEYS[batches:3]:
        store.delete(key)
    manifest = Manifest.from_bytes(store.get(KEYS[batches - 1]), key=KEYS[batches - 1])
    newest_of_table("shop", "orders").write(store, manifest.key, manifest.sha256)


def empty_table(root: Path) -> None:
    shutil.rmtree(root / "shop/orders")


Damage = Callable[[ObjectStore, Path], None]
DAMAGES: dict[str, tuple[Damage, str]] = {
    "newest set back": (lambda store, _: set_back(store, 2), "20 records up to {0: 20} of epoch 0"),
    "two set back": (lambda store, _: set_back(store, 1), "10 records up to {0: 10} of epoch 0"),
    "all gone": (lambda _, root: empty_table(root), "nothing"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_kept_cut_tells_that_the_backup_went_further(filled: ObjectStore, root: Path, damage: str) -> None:
    keep_cut(filled)
    forget_ends("shop")
    assert check(filled).ok
    spoil, left = DAMAGES[damage]
    spoil(filled, root)
    (told,) = check(filled).differences
    assert told == (
        f"shop/orders: kept cut {CUT} has 30 records up to {{0: 30}} of epoch 0, and the manifests have {left}: what lay behind "
        "is not in the backup"
    )


@pytest.mark.parametrize("damage", DAMAGES)
def test_this_machine_tells_it_too(filled: ObjectStore, root: Path, bronze: Bronze, damage: str) -> None:
    """Who writes the bucket does not reach it. A backup of the bronze that is there makes it whole again."""
    spoil, left = DAMAGES[damage]
    spoil(filled, root)
    (told,) = check(filled).differences
    assert told.startswith(f"shop/orders: {KEYS[2]}, which this machine has seen, has 30 records up to {{0: 30}} of epoch 0")
    assert f"the manifests have {left}" in told
    assert run(filled, bronze).lost == KEYS[2]
    assert check(filled).ok
    assert run(filled, bronze).lost == ""


def test_a_plan_that_is_left_over_tells_of_batches_before_it(filled: ObjectStore) -> None:
    """Nothing else is left: no cut, and another machine."""
    forget_ends("shop")
    set_back(filled, 1)
    (told,) = check(filled).differences
    assert told == (
        "shop/orders/_plans/0000-00000000000000000020.json plans a batch that begins at {0: 20}, and the manifests end at "
        "{0: 10}: what lay between is not in the backup"
    )


def test_a_loss_stays_told_where_bronze_has_no_more_either(filled: ObjectStore, root: Path, tmp_path: Path) -> None:
    shorter = Bronze(str(tmp_path / "shorter"))
    for n in range(2):
        shorter.append("orders", records(10 * n, 10, timestamp=NOON + n * 3_600_000))
    set_back(filled, 2)
    for _ in range(2):
        done = backup_table(filled, source="shop", table="orders", bronze_path=shorter.path)
        assert (done.lost, done.manifests) == (KEYS[2], 0)
        assert len(check(filled).differences) == 1


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_topic_that_was_made_again_has_a_life_of_its_own(filled: ObjectStore, root: Path, tmp_path: Path, epoch: int) -> None:
    """The bucket was emptied, which is told once, and the source begins anew: earlier ends are none of this backup's."""
    keep_cut(filled)
    empty_table(root)
    again = Bronze(str(tmp_path / "again"), topic_id="topic-id-2")
    again.append("orders", records(0, 5), epoch=epoch)
    assert [run(filled, again).lost for _ in range(2)] == [KEYS[2], ""]
    assert check(filled).ok


def test_a_backup_that_was_killed_is_no_loss(store: ObjectStore, bronze: Bronze) -> None:
    """At each of its steps: what is planned is finished by the next run, and nobody misses it."""
    for step in range(12):
        bronze.append("orders", records(10 * step, 10, timestamp=NOON + step * 3_600_000))
        with contextlib.suppress(KilledError):
            run(FaultyStore(store, dies_at=step), bronze)
        report = check(store)
        assert (report.differences, report.strays) == ((), ()), step
    run(store, bronze)
    assert check(store).ok


@pytest.mark.parametrize("which", ["whole", "left over", "of an epoch"])
def test_a_plan_that_was_changed_is_named(filled: ObjectStore, bronze: Bronze, root: Path, which: str) -> None:
    """Nobody needs that of a whole batch. One that is left over stops the next backup, one of an epoch the restore."""
    keys = {"whole": "shop/orders/_plans/0000-00000000000000000010.json"}
    keys["left over"] = "shop/orders/_plans/0000-00000000000000000030.json"
    keys["of an epoch"] = "shop/orders/_epochs/0001.json"
    if which == "left over":
        bronze.append("orders", records(30, 10, timestamp=NOON))
        with pytest.raises(KilledError):
            run(FaultyStore(filled, dies_at=4), bronze)
    if which == "of an epoch":
        bronze.append("orders", [], epoch=1, ends={0: 31})
        run(filled, bronze)
    assert check(filled).ok
    file = root / keys[which]
    data = bytearray(file.read_bytes())
    data[0] ^= 1
    file.write_bytes(data)
    report = check(filled)
    (told,) = report.wrong
    assert told.startswith(f"{keys[which]} is ")
    assert bool(report.differences) == (which == "of an epoch")
    if which == "whole":
        file.unlink()
        assert check(filled).strays == (f"{keys[which]} is missing; its batch is whole, and nothing is lost",)
