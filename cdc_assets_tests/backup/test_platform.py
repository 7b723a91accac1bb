"""The log of a source's connectors, offsets and topics: one entry per change, one chain, and every damage named."""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from cdc_assets.backup.platform_log import PlatformState, newest_state, verify_state, write_state
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.registry.errors import BackupError

FIRST = PlatformState("source: shop\n", {"shop-capture": {"config": {}}}, {"shop-capture": [{"offset": {"lsn": 1}}]}, {}, {})
LOG, SECTIONS = "shop/platform-state/log", "shop/platform-state/sections"


def at(lsn: int) -> PlatformState:
    return replace(FIRST, offsets={"shop-capture": [{"offset": {"lsn": lsn}}]})


@pytest.fixture
def filled(store: ObjectStore) -> ObjectStore:
    for lsn in (1, 2, 3):
        assert write_state(store, "shop", at(lsn)) is not None
    return store


def test_a_change_is_an_entry_and_the_section_that_changed(any_store: ObjectStore) -> None:
    """Read back by nothing but JSON and hashes."""
    entries = [write_state(any_store, "shop", at(lsn)) for lsn in (1, 1, 2)]
    assert [entry and entry.number for entry in entries] == [1, None, 2]
    keys = [item.key for item in any_store.list("shop/platform-state/")]
    assert len([key for key in keys if key.startswith(SECTIONS)]) == 6 - 1  # topics and subjects are both {}
    first, second = (any_store.get(key) for key in keys if key.startswith(LOG))
    assert json.loads(second)["previous"] == hashlib.sha256(first).hexdigest()
    for name, sha256 in json.loads(second)["sections"].items():
        data = any_store.get(f"{SECTIONS}/{sha256}.json")
        assert (hashlib.sha256(data).hexdigest(), json.loads(data)) == (sha256, getattr(at(2), name))
    newest = newest_state(any_store, "shop")
    assert newest is not None
    assert newest[1] == at(2)
    assert verify_state(any_store, "shop", deep=True) == ()


def test_nothing_is_no_state(store: ObjectStore) -> None:
    assert (newest_state(store, "shop"), verify_state(store, "shop")) == (None, ())


def test_two_writers_make_one_chain(store: ObjectStore) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda lsn: write_state(store, "shop", at(lsn)), range(40)))
    assert verify_state(store, "shop", deep=True) == ()


def test_a_lost_hint_costs_a_listing_only(filled: ObjectStore) -> None:
    filled.put("shop/platform-state/newest", b"999999999999.json")
    newest = newest_state(filled, "shop")
    assert newest is not None
    assert newest[0].number == 3
    filled.delete("shop/platform-state/newest")
    assert newest_state(filled, "shop") == newest


def test_the_newest_entry_is_missed(any_store: ObjectStore) -> None:
    for lsn in (1, 2, 3):
        write_state(any_store, "shop", at(lsn))
    newest, third = "shop/platform-state/newest", f"{LOG}/{3:012d}.json"
    name, digest = any_store.get(newest).decode().split(" ")
    entry = any_store.get(third)
    assert (name, digest) == (third.rpartition("/")[2], hashlib.sha256(entry).hexdigest())
    any_store.delete(third)
    told = f"{third} is missing: {newest} names it as the newest entry; what it held is not in the backup"
    assert verify_state(any_store, "shop") == (told,)
    any_store.put(third, entry + b" ")
    assert verify_state(any_store, "shop")[0].startswith(f"{third} is another than when it was written: {newest} names sha256 ")
    any_store.delete(third)
    any_store.delete(newest)
    lost = f"{newest} is missing: nothing tells whether {LOG}/{2:012d}.json is the newest entry, or later ones are gone"
    assert verify_state(any_store, "shop") == (lost,)
    # The next look that finds what the newest says names it again.
    assert write_state(any_store, "shop", at(2)) is None
    assert any_store.get(newest).decode().startswith(f"{2:012d}.json ")
    assert verify_state(any_store, "shop") == ()


def test_another_part_is_named_and_not_restored(filled: ObjectStore, root: Path) -> None:
    newest = newest_state(filled, "shop")
    assert newest is not None
    (root / f"{SECTIONS}/{newest[0].sections['offsets']}.json").write_bytes(b'{"shop-capture":[]}')
    (difference,) = verify_state(filled, "shop")
    assert newest[0].sections["offsets"] in difference
    with pytest.raises(BackupError, match=newest[0].sections["offsets"]):
        newest_state(filled, "shop")


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        (lambda root: (root / LOG / f"{2:012d}.json").unlink(), "000000000002.json is missing"),
        (lambda root: (root / LOG / f"{2:012d}.json").write_bytes(b"{}"), "is no platform entry of a backup"),
        (lambda root: (root / LOG / "note.txt").write_bytes(b""), "note.txt is no entry"),
        (lambda root: (root / SECTIONS / "note.txt").write_bytes(b""), "note.txt is no section"),
    ],
)
def test_a_broken_chain_is_named(filled: ObjectStore, root: Path, broken: object, named: str) -> None:
    broken(root)  # type: ignore[operator]
    assert any(named in difference for difference in verify_state(filled, "shop"))


def test_an_entry_that_was_written_again_is_named(filled: ObjectStore, root: Path) -> None:
    file = root / LOG / f"{2:012d}.json"
    file.write_bytes(file.read_bytes().replace(b"T", b"t", 1))
    assert any("000000000003.json follows an entry" in difference for difference in verify_state(filled, "shop"))


def test_a_missing_part_is_named_once(filled: ObjectStore, root: Path) -> None:
    newest = newest_state(filled, "shop")
    assert newest is not None
    registry = root / f"{SECTIONS}/{newest[0].sections['registry']}.json"
    registry.unlink()
    assert len([each for each in verify_state(filled, "shop") if registry.name in each and "is missing" in each]) == 1
