"""Objects that are flipped, cut short, missing or foreign: each is named, and what is whole is restored."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.recovery.restore_point import DAMAGED, RESTORED
from cdc_assets.recovery.restored_bronze import plan_bronze, restore_bronze
from cdc_assets.recovery.stored_rows import unpack
from cdc_assets.registry.errors import BackupError
from cdc_assets_tests.recovery.conftest import Ask
from cdc_assets_tests.recovery.object_damage import cut_short, flip, name_as_it_is, newest_manifest, second_object
from cdc_assets_tests.recovery.original import TABLES, Original, assert_same, fill, held, quietly, states

DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "flipped": (flip, "has another content than its manifest says: sha256"),
    "cut short": (cut_short, "bytes, "),
    "missing": (Path.unlink, "is missing"),
}


@pytest.fixture
def backed_up(store: ObjectStore, original: Original) -> ObjectStore:
    fill(original)
    original.back_up(store, *TABLES)
    return store


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_an_object_is_named_and_the_other_tables_are_restored(
    backed_up: ObjectStore, original: Original, ask: Ask, root: Path, damage: str
) -> None:
    victim = second_object(root)
    key, content = str(victim.relative_to(root)), victim.read_bytes()
    DAMAGES[damage][0](victim)
    request = ask(backed_up)
    found = {each.table: each for each in restore_bronze(request, quietly)}
    assert {name: each.outcome for name, each in found.items()} == {"orders": DAMAGED, "customers": RESTORED}
    (said,) = found["orders"].damage
    assert said.startswith(f"{key} ")
    assert DAMAGES[damage][1] in said
    assert_same(original, request.path, "customers")
    assert held(request.path, "orders") == []
    victim.write_bytes(content)
    restore_bronze(request, quietly)
    assert_same(original, request.path, *TABLES)


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_the_rest_of_its_table_is_restored_where_that_is_asked_for(
    backed_up: ObjectStore, original: Original, ask: Ask, root: Path, damage: str
) -> None:
    victim = second_object(root)
    lost = {json.loads(line)["offset"] for line in gzip.decompress(victim.read_bytes()).splitlines()}
    DAMAGES[damage][0](victim)
    request = ask(backed_up, skip_damaged=True)
    found = {each.table: each for each in restore_bronze(request, quietly)}
    assert {each.outcome for each in found.values()} == {RESTORED}
    (said,) = found["orders"].damage
    assert str(victim.relative_to(root)) in said
    rest = [each for each in held(original.path, "orders") if each["partition"] or each["offset"] not in lost]
    assert held(request.path, "orders") == rest
    (now,), (was,) = ([s for s in states(path).values() if s.table == "orders"] for path in (request.path, original.path))
    assert (now.records, now.positions) == (len(rest), was.positions)


@pytest.mark.slow
@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("what", ["missing", "no manifest"])
def test_a_manifest_is_named(backed_up: ObjectStore, ask: Ask, root: Path, what: str, skip: bool) -> None:
    victim = sorted((root / "shop/orders/_manifests").iterdir())[1]
    gone = json.loads(victim.read_bytes())["records"]
    victim.unlink() if what == "missing" else victim.write_bytes(b"{")
    request = ask(backed_up, skip_damaged=skip)
    orders = restore_bronze(request, quietly)[0]
    assert orders.outcome == (RESTORED if skip else DAMAGED)
    assert "shop/orders/_manifests/" in orders.damage[0]
    assert any("begins at offset" in sentence for sentence in orders.damage)
    assert len(held(request.path, "orders")) == (1612 - gone if skip else 0)
    assert plan_bronze(ask(backed_up, "other", skip_damaged=skip), quietly)[0].damage == orders.damage


@pytest.mark.slow
@pytest.mark.parametrize("skip", [False, True])
def test_a_newest_manifest_that_is_gone_is_named(backed_up: ObjectStore, ask: Ask, root: Path, skip: bool) -> None:
    """Nothing else is left: the lake is gone, and the backup ends earlier than it did."""
    victim = newest_manifest(root)
    told = json.loads(victim.read_bytes())
    victim.unlink()
    for item in told["objects"]:
        (root / item["key"]).unlink()
    request = ask(backed_up, skip_damaged=skip)
    orders = restore_bronze(request, quietly)[0]
    assert orders.outcome == (RESTORED if skip else DAMAGED)
    (said,) = orders.damage
    assert said.startswith(f"{victim.relative_to(root)} is missing: shop/orders/_newest names it as the newest manifest")
    assert len(held(request.path, "orders")) == (1612 - told["records"] if skip else 0)
    assert plan_bronze(ask(backed_up, "other", skip_damaged=skip), quietly)[0].damage == orders.damage


@pytest.mark.slow
@pytest.mark.parametrize("key", ["../other/x.json.gz", "shop/customers/dt=1/hr=1/{name}", "shop/orders/../customers/{name}"])
def test_a_manifest_that_names_what_is_not_of_its_table(backed_up: ObjectStore, ask: Ask, root: Path, key: str) -> None:
    manifest = max((root / "shop/orders/_manifests").iterdir())
    told = json.loads(manifest.read_bytes())
    key = key.format(name=told["objects"][0]["key"].rsplit("/", 1)[-1])
    told["objects"][0]["key"] = key
    manifest.write_text(json.dumps(told))
    name_as_it_is(root)
    orders = restore_bronze(ask(backed_up), quietly)[0]
    assert orders.outcome == DAMAGED
    assert orders.damage[0].startswith(f"{key} is none of shop/orders: shop/orders/_manifests/")


def test_another_object_with_its_own_digest(backed_up: ObjectStore, ask: Ask, root: Path) -> None:
    """Whoever writes the bucket may write a newest manifest that fits, and what names it: the records have to be those that it
    names."""
    manifest = max((root / "shop/orders/_manifests").iterdir())
    told = json.loads(manifest.read_bytes())
    item = told["objects"][0]
    data = gzip.compress(re.sub(rb'"partition":\d', b'"partition":7', gzip.decompress((root / item["key"]).read_bytes())))
    (root / item["key"]).write_bytes(data)
    item |= {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    manifest.write_text(json.dumps(told))
    name_as_it_is(root)
    (said,) = restore_bronze(ask(backed_up), quietly)[0].damage
    assert "(partitions: [7]); its manifest says" in said


def test_an_earlier_manifest_that_was_written_again_is_told_by_the_next(backed_up: ObjectStore, ask: Ask, root: Path) -> None:
    first, second, *_ = sorted((root / "shop/orders/_manifests").iterdir())
    first.write_text(json.dumps(json.loads(first.read_bytes())))
    orders = restore_bronze(ask(backed_up), quietly)[0]
    assert orders.outcome == DAMAGED
    assert orders.damage[0].startswith(f"shop/orders/_manifests/{second.name}: the manifest before it is another")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (gzip.compress(bytes(1 << 20)), "unpacks to more than 0 MiB"),
        (gzip.compress(b"{}\n")[:-4], "is cut short"),
        (b"", "is cut short"),
        (b"text", "is no gzip"),
        (gzip.compress(b"{}\n") * 2, "bytes behind its end"),
    ],
)
def test_what_is_unpacked_is_bounded_and_whole(data: bytes, message: str) -> None:
    with pytest.raises(BackupError, match=message):
        unpack(data, "k", most=1 << 16)
