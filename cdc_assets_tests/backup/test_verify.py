"""Every kind of damage is found and named, and nothing else is."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.backup.backup_copy import backup_table
from cdc_assets.backup.manifest import BatchPlan
from cdc_assets.backup.verification import VerifyReport, verify_backup
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets_tests.backup.bronze_tables import NOON, Bronze, Rec, records
from cdc_assets_tests.backup.faulty_store import FaultyStore

HOUR = 3_600_000
MANIFESTS = "shop/orders/_manifests"


@pytest.fixture
def filled(store: ObjectStore, bronze: Bronze) -> ObjectStore:
    """Three batches: offsets 0-9, 10-19, 20-29."""
    for n in range(3):
        bronze.append("orders", records(10 * n, 10, timestamp=NOON + n * HOUR))
        backup_table(store, source="shop", table="orders", bronze_path=bronze.path)
    return store


def check(store: ObjectStore, bronze: Bronze, *, deep: bool = False) -> VerifyReport:
    return verify_backup(store, source="shop", table="orders", bronze_path=bronze.path, deep=deep)


def object_of(root: Path, batch: int) -> tuple[Path, str]:
    manifest = json.loads((root / MANIFESTS / f"0000-{batch * 10:020d}.json").read_bytes())
    key = manifest["objects"][0]["key"]
    return root / key, key


def test_whole(filled: ObjectStore, bronze: Bronze) -> None:
    for deep in (False, True):
        assert check(filled, bronze, deep=deep) == VerifyReport(manifests=3, objects=3, records=30, differences=())


def test_no_backup_yet(store: ObjectStore, bronze: Bronze) -> None:
    assert check(store, bronze).ok
    bronze.append("orders", records(0, 4))
    report = check(store, bronze)
    assert (report.ok, report.manifests, report.behind) == (True, 0, 4)


def test_bronze_ahead_is_no_difference(filled: ObjectStore, bronze: Bronze) -> None:
    bronze.append("orders", records(30, 7))
    report = check(filled, bronze)
    assert (report.differences, report.behind) == ((), 7)


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda path: path.unlink(), "{key} is missing (10 records, offsets 10 to 19)"),
        (lambda path: path.write_bytes(path.read_bytes() + b"x"), "{key} has {more} bytes, its manifest says {size}"),
        (lambda path: path.write_bytes(b""), "{key} has 0 bytes, its manifest says {size}"),
        (
            lambda path: path.write_bytes(bytes([*path.read_bytes()[:-1], path.read_bytes()[-1] ^ 1])),
            "{key} has another content than its manifest says: sha256 ",
        ),
    ],
    ids=["missing", "longer", "empty", "one bit"],
)
def test_damaged_object(filled: ObjectStore, bronze: Bronze, root: Path, damage: Callable[[Path], object], expected: str) -> None:
    path, key = object_of(root, 1)
    size = path.stat().st_size
    damage(path)
    (difference,) = check(filled, bronze).differences
    assert difference.startswith(expected.format(key=key, size=size, more=size + 1))


@pytest.mark.parametrize("kind", ["s3", "gcs"])
def test_same_size_other_content_is_seen_in_the_listing(
    kind: str, shared_stores: Callable[[str], ObjectStore], bronze: Bronze
) -> None:
    import copy
    import uuid

    shared = shared_stores(kind)
    store = copy.copy(shared)
    store.config = shared.config.model_copy(update={"prefix": uuid.uuid4().hex})
    bronze.append("orders", records(0, 10))
    backup_table(store, source="shop", table="orders", bronze_path=bronze.path)
    (key,) = [item.key for item in store.list("shop/orders/") if item.key.endswith(".gz")]
    assert check(store, bronze).ok
    data = store.get(key)
    store.put(key, data[:-1] + bytes([data[-1] ^ 1]))
    (difference,) = check(store, bronze).differences
    assert difference.startswith(f"{key} has another content")


def test_extra_objects(filled: ObjectStore, bronze: Bronze, root: Path) -> None:
    path, key = object_of(root, 0)
    folder = key.rsplit("/", 1)[0]
    strays = {
        f"{folder}/core.shop.public.orders+0+0+{3:020d}.json.gz",
        f"{folder}/notes.txt",
        "shop/orders/_manifests/notes.json",
        "shop/orders/_plans/x",
        "shop/orders/x",
    }
    for stray in strays:
        filled.put(stray, path.read_bytes())
    report = check(filled, bronze)
    assert set(report.strays) == {f"{stray} is in no manifest, and no plan names it" for stray in strays}
    assert (report.differences, report.ok) == ((), False), "they lose nothing"
    # What a namesake has is none of ours.
    filled.put("shop/orders2/x", b"")
    assert len(check(filled, bronze).strays) == len(strays)


def test_an_object_ahead_of_the_newest_manifest_is_a_batch_in_the_making_once_it_is_planned(
    filled: ObjectStore, bronze: Bronze
) -> None:
    ahead = f"shop/orders/dt=2026-11-21/hr=20/core.shop.public.orders+0+0+{30:020d}.json.gz"
    filled.put(ahead, gzip.compress(b""))
    report = check(filled, bronze)
    assert (report.strays, report.unfinished) == ((f"{ahead} is in no manifest, and no plan names it",), ())
    plan = BatchPlan("shop", "orders", "core.shop.public.orders", "topic-id-1", 0, {0: (30, 40)}, 9, True)
    filled.put(plan.key, plan.to_bytes())
    report = check(filled, bronze)
    assert (report.wrong, report.unfinished) == ((), (ahead,))


def test_a_plan_that_is_written_while_the_backup_is_listed_names_its_objects(filled: ObjectStore, bronze: Bronze) -> None:
    ahead = f"shop/orders/dt=2026-11-21/hr=20/core.shop.public.orders+0+0+{30:020d}.json.gz"
    plan = BatchPlan("shop", "orders", "core.shop.public.orders", "topic-id-1", 0, {0: (30, 40)}, 9, True)
    filled.put(plan.key, plan.to_bytes())
    filled.put(ahead, gzip.compress(b""))

    class Late(FaultyStore):
        """Its listing of the whole table had passed the folder of plans when this one was written."""

        def list(self, prefix: str, *, after: str = "") -> Any:
            return (item for item in super().list(prefix, after=after) if prefix.endswith("_plans/") or item.key != plan.key)

    report = check(Late(filled), bronze)
    assert (report.wrong, report.unfinished) == ((), (ahead,))


def test_missing_manifest(filled: ObjectStore, bronze: Bronze, root: Path) -> None:
    _, orphan = object_of(root, 1)
    key = f"{MANIFESTS}/0000-{10:020d}.json"
    filled.delete(key)
    after = f"{MANIFESTS}/0000-{20:020d}.json"
    report = check(filled, bronze)
    assert report.differences == (
        f"{after}: gap in partition 0: it begins at offset 20, the one before ended at 10",
        f"{after}: the backup up to here has 20 records and ends at {{0: 30}}, it says 30 and {{0: 30}}",
    )
    assert (report.strays, report.unfinished) == ((), (orphan,)), "its plan is there still"


def test_first_manifest_missing(filled: ObjectStore, bronze: Bronze) -> None:
    filled.delete(f"{MANIFESTS}/0000-{0:020d}.json")
    assert "begins at offset 10, the one before ended at 0" in check(filled, bronze).differences[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is no manifest"),
        (b"{}", "is no manifest"),
        (b"[1]", "is no manifest"),
        (b'{"kind":"manifest","cdc_assets":2}', "is a manifest of a backup of format 2, this cdc reads 1"),
        (b'{"kind":"manifest","cdc_assets":1}', "is no manifest of a backup: KeyError"),
        (b"\xff\xfe", "is no manifest"),
    ],
)
def test_unreadable_manifest(filled: ObjectStore, bronze: Bronze, content: bytes, message: str) -> None:
    key = f"{MANIFESTS}/0000-{10:020d}.json"
    filled.put(key, content)
    assert check(filled, bronze).differences[0].startswith(f"{key} {message}")


def test_manifest_under_another_key(filled: ObjectStore, bronze: Bronze, root: Path) -> None:
    content = (root / MANIFESTS / f"0000-{0:020d}.json").read_bytes()
    filled.put(f"{MANIFESTS}/0000-{15:020d}.json", content)
    assert check(filled, bronze).differences == (
        f"{MANIFESTS}/0000-{15:020d}.json holds the manifest of {MANIFESTS}/0000-{0:020d}.json",
    )


def test_each_manifest_names_the_bytes_of_the_one_before(filled: ObjectStore, bronze: Bronze, root: Path) -> None:
    """One that was replaced by another that is right in itself is told by the next, with its object as well."""
    keys = [f"{MANIFESTS}/0000-{first:020d}.json" for first in (0, 10, 20)]
    named = [json.loads((root / key).read_bytes())["previous"] for key in keys]
    digests = [hashlib.sha256((root / key).read_bytes()).hexdigest() for key in keys]
    assert named == ["", *digests[:2]]
    path, key = object_of(root, 1)
    other = gzip.compress(gzip.decompress(path.read_bytes()).replace(b'"value":"', b'"value":"#'))
    assert other != path.read_bytes()
    manifest = json.loads((root / keys[1]).read_bytes())
    sums = {"size": len(other), "sha256": hashlib.sha256(other).hexdigest(), "md5": hashlib.md5(other).hexdigest()}
    manifest["objects"][0] |= sums
    filled.put(key, other)
    filled.put(keys[1], json.dumps(manifest).encode())
    digest = hashlib.sha256((root / keys[1]).read_bytes()).hexdigest()
    assert check(filled, bronze, deep=True).differences == (
        f"{keys[2]}: the manifest before it is another than when it was written: it names sha256 {digests[1]}, "
        f"{keys[1]} has sha256 {digest}",
    )


def test_rows_lost_or_doubled_in_bronze(filled: ObjectStore, bronze: Bronze) -> None:
    from deltalake import DeltaTable

    bronze.write("orders", [Rec(0, 5)])
    assert check(filled, bronze).differences == (
        "shop/orders: the backup holds 30 records up to {0: 30}, bronze has 31 rows there",
    )
    DeltaTable(bronze.path).delete("offset >= 4 and offset < 7")
    assert check(filled, bronze).differences == (
        "shop/orders: the backup holds 30 records up to {0: 30}, bronze has 27 rows there",
    )


def test_a_manifest_is_read_once_and_again_when_it_has_changed(
    any_store: ObjectStore, bronze: Bronze, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(3):
        bronze.append("orders", records(10 * n, 10, timestamp=NOON + n * HOUR))
        backup_table(any_store, source="shop", table="orders", bronze_path=bronze.path)
    read: list[str] = []
    get = any_store.get
    monkeypatch.setattr(any_store, "get", lambda key: (read.append(key), get(key))[1])

    def manifests_read() -> tuple[bool, list[str]]:
        read.clear()
        kept = tmp_path / "kept"
        report = verify_backup(any_store, source="shop", table="orders", bronze_path=bronze.path, kept=kept)
        return report.ok, sorted(key for key in read if key.startswith(MANIFESTS))

    whole, keys = manifests_read()
    assert whole
    assert len(keys) == 3
    tells = all(item.md5 for item in any_store.list(f"{MANIFESTS}/"))
    assert manifests_read() == (True, [] if tells else keys)
    good = get(keys[1])
    any_store.put(keys[1], good.replace(b'"records":10', b'"records":11', 1))
    assert manifests_read() == (False, keys[1:2] if tells else keys)
    any_store.put(keys[1], good)
    assert manifests_read()[0]
