"""The newest manifest is named by `_newest`, by its digest: one that is gone, or was replaced, is told."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.backup.backup_copy import backup_table
from cdc_assets.backup.documents import canonical_json
from cdc_assets.backup.manifest import newest_of_table
from cdc_assets.backup.verification import verify_backup
from cdc_assets.clients.object_store import ObjectStore, StoredObject
from cdc_assets.recovery.backed_up_table import find_backup
from cdc_assets.registry.errors import BackupError
from cdc_assets_tests.backup.bronze_tables import NOON, Bronze, records
from cdc_assets_tests.backup.faulty_store import FaultyStore, KilledError
from cdc_assets_tests.backup.runs import run

NEWEST = "shop/orders/_newest"
KEYS = [f"shop/orders/_manifests/0000-{10 * n:020d}.json" for n in range(4)]


def append(store: ObjectStore, bronze: Bronze, batch: int) -> None:
    bronze.append("orders", records(10 * batch, 10, timestamp=NOON + batch * 3_600_000))
    run(store, bronze)


@pytest.fixture
def filled(any_store: ObjectStore, bronze: Bronze) -> ObjectStore:
    """Three batches: offsets 0-9, 10-19, 20-29."""
    for batch in range(3):
        append(any_store, bronze, batch)
    return any_store


def differences(store: ObjectStore, bronze: Bronze, **options: Any) -> tuple[str, ...]:
    """What a verification tells, with bronze or without; a restore tells the same of the manifests."""
    found = verify_backup(store, source="shop", table="orders", bronze_path=bronze.path, **options).differences
    assert verify_backup(store, source="shop", table="orders", bronze_path=None, **options).differences == found
    assert find_backup(store, "shop", "orders").torn == found
    return found


def named(store: ObjectStore) -> tuple[str, str]:
    name, digest = store.get(NEWEST).decode().split(" ")
    return name, digest


def test_each_run_names_the_bytes_of_the_newest(filled: ObjectStore, bronze: Bronze) -> None:
    assert named(filled) == (KEYS[2].rpartition("/")[2], hashlib.sha256(filled.get(KEYS[2])).hexdigest())
    assert differences(filled, bronze) == ()


def test_the_newest_is_missed_and_made_again(filled: ObjectStore, bronze: Bronze, tmp_path: Path) -> None:
    before = filled.get(KEYS[2])
    filled.delete(KEYS[2])
    told = f"{KEYS[2]} is missing: {NEWEST} names it as the newest manifest; what it held is not in the backup"
    assert differences(filled, bronze) == (told,)
    for _ in range(2):  # also by copies that are kept here
        assert differences(filled, bronze, kept=tmp_path / "kept") == (told,)
    again = run(filled, bronze)
    assert (again.lost, again.records) == (KEYS[2], 10)
    assert filled.get(KEYS[2]) == before
    assert differences(filled, bronze) == ()
    assert run(filled, bronze).lost == ""


def test_all_of_them_are_missed(filled: ObjectStore, bronze: Bronze) -> None:
    for key in KEYS[:3]:
        filled.delete(key)
    assert any(told.startswith(f"{KEYS[2]} is missing: ") for told in find_backup(filled, "shop", "orders").torn)


def test_what_names_the_newest_may_not_go_with_it(filled: ObjectStore, bronze: Bronze) -> None:
    """As where all goes that was put after a moment: what names the newest is put last."""
    filled.delete(KEYS[2])
    filled.delete(NEWEST)
    assert differences(filled, bronze) == (
        f"{NEWEST} is missing: nothing tells whether {KEYS[1]} is the newest manifest, or later ones are gone",
    )
    assert run(filled, bronze).records == 10
    assert differences(filled, bronze) == ()


def test_a_loss_stays_told_where_bronze_has_no_more_either(filled: ObjectStore, bronze: Bronze, tmp_path: Path) -> None:
    """A lake that was restored of what is left does not take the sign away."""
    shorter = Bronze(str(tmp_path / "shorter"))
    for batch in range(2):
        shorter.append("orders", records(10 * batch, 10, timestamp=NOON + batch * 3_600_000))
    filled.delete(KEYS[2])
    for _ in range(2):
        done = backup_table(filled, source="shop", table="orders", bronze_path=shorter.path)
        assert (done.lost, done.manifests) == (KEYS[2], 0)
        assert len(differences(filled, shorter)) == 1


def test_one_that_was_replaced_is_told_and_nothing_goes_on_behind_it(filled: ObjectStore, bronze: Bronze) -> None:
    before = filled.get(KEYS[2])
    filled.put(KEYS[2], before + b" ")
    (told,) = differences(filled, bronze)
    assert told.startswith(f"{KEYS[2]} is another than when it was written: {NEWEST} names sha256 ")
    bronze.append("orders", records(30, 10))
    with pytest.raises(BackupError, match="is another than when it was written.*put it back as it was, or remove it"):
        run(filled, bronze)
    filled.delete(KEYS[2])
    assert run(filled, bronze).lost == KEYS[2]
    assert differences(filled, bronze) == ()


def test_nobodys_text_is_told_and_put_right(filled: ObjectStore, bronze: Bronze) -> None:
    name = KEYS[2].rpartition("/")[2].encode()
    for text in (b"", b"x", canonical_json({}), name, name + b" 12"):
        filled.put(NEWEST, text)
        assert differences(filled, bronze) == (f"{NEWEST} names no manifest",)
        run(filled, bronze)
        assert differences(filled, bronze) == ()


def test_a_backup_that_is_made_meanwhile_is_no_loss(filled: ObjectStore, bronze: Bronze) -> None:
    class Late(FaultyStore):
        """Another backup goes on between the listing and all that is read then."""

        def list(self, prefix: str, *, after: str = "") -> Any:
            found: list[StoredObject] = list(super().list(prefix, after=after))
            if len(list(filled.list("shop/orders/_manifests/"))) == 3:
                append(filled, bronze, 3)
            return iter(found)

    assert find_backup(Late(filled), "shop", "orders").torn == ()
    assert named(filled)[0] == KEYS[3].rpartition("/")[2]


def test_a_run_that_was_killed_behind_its_manifest_is_named_by_the_next(filled: ObjectStore, bronze: Bronze) -> None:
    bronze.append("orders", records(30, 10, timestamp=NOON))

    class Killed(FaultyStore):
        def put(self, key: str, data: bytes) -> None:
            raise KilledError(key)

    with pytest.raises(KilledError):
        run(Killed(filled), bronze)
    assert named(filled)[0] == KEYS[2].rpartition("/")[2]
    assert differences(filled, bronze) == ()
    assert run(filled, bronze).manifests == 0
    assert named(filled)[0] == KEYS[3].rpartition("/")[2]


def test_a_run_asks_for_no_more_than_it_did(filled: ObjectStore, bronze: Bronze) -> None:
    look = [("get", NEWEST), ("list", "shop/orders/_manifests/"), ("get", KEYS[2])]
    idle = FaultyStore(filled)
    run(idle, bronze)
    assert idle.done == look
    busy = FaultyStore(filled)
    append(busy, bronze, 3)
    assert busy.done[:3] == look
    assert [each for each in busy.done[3:] if each[0] != "put_if_absent"] == [("put", NEWEST)]


def test_a_head_is_signed_where_the_secret_is(
    any_store: ObjectStore, bronze: Bronze, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Who may write the bucket and lacks the secret can forge each digest, and not the signature of the last one."""
    monkeypatch.setenv("CDC_HOME", str(tmp_path / "home"))
    head = newest_of_table("shop", "orders")
    append(any_store, bronze, 0)
    assert (head.authorship(any_store), differences(any_store, bronze)) == ("not signed", ())
    monkeypatch.setenv("CDC_SECRET_BACKUP_KEY", "a drawn key")
    (told,) = differences(any_store, bronze)
    assert told == f"{NEWEST} is not signed, and secret backup_key is here: it is of before the secret, or somebody else wrote it"
    append(any_store, bronze, 1)
    assert (head.authorship(any_store), differences(any_store, bronze)) == ("signed by backup_key", ())
    said, _, signature = any_store.get(NEWEST).decode().rpartition(" ")
    own = hmac.new(b"a drawn key", f"{NEWEST}\n{said}".encode(), hashlib.sha256).hexdigest()
    assert signature == own
    # A manifest of somebody else behind the head, whose digest of the one before it is right; and his own head.
    monkeypatch.delenv("CDC_SECRET_BACKUP_KEY")
    append(any_store, bronze, 2)
    forged = any_store.get(NEWEST)
    any_store.put(NEWEST, f"{said} {signature}".encode())
    monkeypatch.setenv("CDC_SECRET_BACKUP_KEY", "a drawn key")
    (told,) = differences(any_store, bronze)
    assert told.startswith(f"{KEYS[2]} is behind what {NEWEST} has signed: ")
    any_store.put(NEWEST, forged + b" " + b"0" * 64)
    (told,) = differences(any_store, bronze)
    assert told.startswith(f"{NEWEST} has another signature than secret backup_key makes: ")
    monkeypatch.delenv("CDC_SECRET_BACKUP_KEY")
    assert head.authorship(any_store) == "signed; no secret backup_key here to compare it with"
