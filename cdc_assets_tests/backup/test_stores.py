"""One suite for every store. The first thing that an endpoint must prove: a second conditional write is refused."""

from __future__ import annotations

import hashlib
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.clients.object_store import MissingObjectError, ObjectStore
from cdc_assets.clients.opened_store import open_store
from cdc_assets.registry.backup_store import BackupStore
from cdc_assets.registry.errors import StoreError
from cdc_assets_tests.support.servers.endpoints import Endpoint, running

KEY = "shop/orders/dt=2026-11-21/hr=05/core.shop.public.orders+0+0+00000000000000000000.json.gz"


def test_second_conditional_write_is_refused(any_store: ObjectStore) -> None:
    assert any_store.put_if_absent(KEY, b"one")
    assert not any_store.put_if_absent(KEY, b"two")
    assert any_store.get(KEY) == b"one"


def test_conditional_write_after_a_plain_one_is_refused(any_store: ObjectStore) -> None:
    any_store.put(KEY, b"one")
    assert not any_store.put_if_absent(KEY, b"two")
    any_store.put(KEY, b"three")
    assert any_store.get(KEY) == b"three"


def test_of_many_writers_one_wins(any_store: ObjectStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda n: any_store.put_if_absent(KEY, b"%d" % n), range(16)))
    assert sum(won) == 1
    assert any_store.get(KEY) == b"%d" % won.index(True)


@pytest.mark.parametrize("size", [0, 1, 9 << 20])
def test_bytes_come_back(any_store: ObjectStore, size: int) -> None:
    # 9 MB: above the size from which Google's client uploads in a resumable session.
    data = hashlib.shake_128(b"seed").digest(size)
    assert any_store.put_if_absent(KEY, data)
    assert any_store.get(KEY) == data
    (item,) = any_store.list("shop/")
    assert (item.key, item.size) == (KEY, size)
    assert item.md5 in (None, hashlib.md5(data).hexdigest())
    assert not any_store.put_if_absent(KEY, data + b"!")
    assert any_store.get(KEY) == data


def test_endpoints_list_the_md5(any_store: ObjectStore) -> None:
    """Other stores may tell none, and never a wrong one."""
    any_store.put(KEY, b"content")
    (item,) = any_store.list("shop/")
    told = hashlib.md5(b"content").hexdigest()
    assert item.md5 in ((told,) if any_store.config.kind in ("s3", "gcs") else (told, None))


def test_listing_is_complete_sorted_and_confined(any_store: ObjectStore) -> None:
    keys = [f"shop/orders/_manifests/0000-{n:020d}.json" for n in range(1100)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: any_store.put(key, b"{}"), keys))
    for other in ("shop/orders2/x", "shop/orders.json", "shop/orders-2/x", "shop/order"):
        any_store.put(other, b"not ours")
    # More than one page: both services answer with at most 1000 keys at a time.
    assert [item.key for item in any_store.list("shop/orders/")] == keys
    assert [item.key for item in any_store.list("shop/orders/_manifests/", after=keys[1090])] == keys[1091:]
    assert [item.key for item in any_store.list("shop/orders/_manifests/", after=keys[1090][:-1])] == keys[1090:]
    assert list(any_store.list("shop/orders/_manifests/", after=keys[-1])) == []
    assert list(any_store.list("shop/nothing/")) == []


def test_missing_object_is_named(any_store: ObjectStore) -> None:
    with pytest.raises(MissingObjectError, match="shop/gone"):
        any_store.get("shop/gone")
    any_store.delete("shop/gone")


def test_deleted_is_gone(any_store: ObjectStore) -> None:
    any_store.put(KEY, b"x")
    any_store.delete(KEY)
    assert list(any_store.list("shop/")) == []
    assert any_store.put_if_absent(KEY, b"y")


def test_missing_bucket_is_named(any_store: ObjectStore) -> None:
    config = any_store.config.model_copy(update={"bucket": f"{any_store.config.bucket}-nowhere"})
    nowhere = open_store(config)
    with pytest.raises(StoreError, match="nowhere"):
        list(nowhere.list("shop/"))
    with pytest.raises(StoreError, match="nowhere"):
        nowhere.put("shop/x", b"x")


def test_bucket_is_made_once(any_store: ObjectStore) -> None:
    any_store.put(KEY, b"x")
    any_store.create_bucket()
    assert any_store.get(KEY) == b"x"


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/",
        "/a",
        "a/",
        "a//b",
        "..",
        "../a",
        "a/../b",
        "a/..",
        ".",
        "./a",
        "a/.",
        "a\0b",
        "a\nb",
        "a\\b",
        "C:\\a",
        "k" * 1100,
        "\ud800",
    ],
)
def test_keys_cannot_leave_the_prefix(any_store: ObjectStore, key: str) -> None:
    for act in (any_store.get, any_store.delete, lambda k: any_store.put(k, b""), lambda k: any_store.put_if_absent(k, b"")):
        with pytest.raises(StoreError, match=r"no key inside|too long"):
            act(key)
    with pytest.raises(StoreError):
        list(any_store.list(key + "/"))


@given(key=st.text(alphabet=st.one_of(st.sampled_from("./\\ab:\0\n~"), st.characters()), max_size=12))
def test_whatever_key_is_taken_stays_inside(key: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(BackupStore(kind="local", bucket=f"{folder}/bucket", prefix="a/b"))
        store.create_bucket()
        try:
            store.put(key, b"x")
        except StoreError:
            written = [path for path in Path(folder).rglob("*") if path.is_file()]
            assert written == []
            return
        (path,) = (path for path in Path(folder).rglob("*") if path.is_file())
        assert path.is_relative_to(Path(folder, "bucket", "a", "b"))
        assert store.get(key) == b"x"
        assert any(item.key == key for item in store.list(key.split("/")[0] + "/")) or "/" not in key


def test_prefix_for_listing_ends_in_a_slash(any_store: ObjectStore) -> None:
    with pytest.raises(StoreError, match="slash"):
        list(any_store.list("shop/orders"))


def test_a_name_too_long_for_the_folder_is_a_store_error(store: ObjectStore, tmp_path: Path) -> None:
    for write in (store.put, store.put_if_absent):
        with pytest.raises(StoreError, match="too long"):
            write("shop/" + "k" * 300, b"")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_file_in_the_place_of_a_folder_is_no_object_that_is_there(store: ObjectStore) -> None:
    store.put("shop", b"a file")
    for write in (store.put, store.put_if_absent):
        with pytest.raises(StoreError, match="File exists"):
            write("shop/orders", b"x")
    assert store.get("shop") == b"a file"


def test_local_links_cannot_lead_out(store: ObjectStore, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"s")
    store.put("shop/x", b"x")
    (tmp_path / "bucket" / "lake" / "shop" / "link").symlink_to(outside)
    (tmp_path / "bucket" / "lake" / "shop" / "file").symlink_to(outside / "secret")
    for key in ("shop/link/secret", "shop/file"):
        with pytest.raises(StoreError, match="leads out"):
            store.get(key)
        with pytest.raises(StoreError, match="leads out"):
            store.put(key, b"overwritten")
    assert [item.key for item in store.list("shop/")] == ["shop/x"]


@pytest.mark.service
@pytest.mark.parametrize("kind", ["s3", "gcs"])
def test_objects_outlive_kill_9(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(kind, tmp_path) as endpoint:
        for name, value in endpoint.environment.items():
            monkeypatch.setenv(name, value)
        store = open_store(endpoint.config.model_copy(update={"prefix": "survivors"}))
        store.put_if_absent(KEY, b"one")
        endpoint.kill()
        endpoint.start()
        assert store.get(KEY) == b"one"
        assert not store.put_if_absent(KEY, b"two")
        assert [item.key for item in store.list("shop/")] == [KEY]


@pytest.mark.parametrize("endpoint", ["s3"], indirect=True)
def test_wrong_credentials_are_an_access_error(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(StoreError, match="SignatureDoesNotMatch"):
        open_store(endpoint.config).put("x", b"x")


def test_no_credentials_say_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    store = open_store(BackupStore(kind="s3", bucket="nobody", endpoint="http://127.0.0.1:9"))
    with pytest.raises(StoreError, match="AWS_ACCESS_KEY_ID"):
        store.get("x")
