"""The GCS endpoint itself: conditions, pages, and Google's own client as the judge."""

from __future__ import annotations

import hashlib
from pathlib import Path

import httpx
import pytest

from cdc_assets.stack.gcs_objects import Conditions, KeptObjects, RefusedError
from cdc_assets_tests.support.servers.endpoints import Endpoint


def test_a_name_is_no_path(tmp_path: Path) -> None:
    """Whoever calls it: no file but those in its own folder is made."""
    (tmp_path / "data").mkdir()
    folder = KeptObjects(tmp_path / "data")
    folder.create_bucket("b")
    for name in ("../../up", "/etc/x", "a/../../b", "x" * 1000):
        draft = folder.draft()
        draft.write(b"x")
        folder.keep(draft, "b", name, conditions=Conditions(match=0), content_type="t", metadata={})
        assert folder.open(folder.find("b", name)).read() == b"x"
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_refused_write_leaves_nothing(tmp_path: Path) -> None:
    folder = KeptObjects(tmp_path)
    folder.create_bucket("b")
    drafts = [folder.draft(), folder.draft()]
    for draft, content in zip(drafts, (b"one", b"two"), strict=True):
        draft.write(content)
    absent = Conditions(match=0)
    folder.keep(drafts[0], "b", "a", conditions=absent, content_type="t", metadata={})
    with pytest.raises(RefusedError) as refused:
        folder.keep(drafts[1], "b", "a", conditions=absent, content_type="t", metadata={})
    assert refused.value.status == 412
    assert len(list((tmp_path / ".content").iterdir())) == 1
    assert folder.open(folder.find("b", "a")).read() == b"one"


@pytest.mark.service
def test_googles_client_finds_what_it_has_written(gcs_endpoint: Endpoint) -> None:
    from google.api_core.exceptions import NotFound, PreconditionFailed

    from spark.table.lake_location import gcs_access

    client = gcs_access(gcs_endpoint.environment["STORAGE_EMULATOR_HOST"]).client
    bucket = client.bucket("cdc-backup")
    large = hashlib.shake_128(b"x").digest(9 << 20)
    for name in ("own/a", "own/b/1", "own/b/2", "own/c ü%2F+/x"):
        bucket.blob(name).upload_from_string(name.encode())
    sent = bucket.blob("own/large", chunk_size=1 << 20)
    sent.upload_from_string(large, checksum="crc32c")
    assert bucket.blob("own/large").download_as_bytes(start=5, end=1 << 20) == large[5 : (1 << 20) + 1]
    assert bucket.blob("own/large").download_as_bytes() == large
    pages = bucket.list_blobs(prefix="own/", delimiter="/", page_size=2)
    assert [blob.name for blob in pages] == ["own/a", "own/large"]
    assert pages.prefixes == {"own/b/", "own/c ü%2F+/"}
    copied = bucket.copy_blob(bucket.blob("own/a"), bucket, "own/z")
    assert (copied.download_as_bytes(), copied.generation != bucket.get_blob("own/a").generation) == (b"own/a", True)
    joined = bucket.blob("own/joined")
    joined.compose([bucket.blob("own/a"), bucket.blob("own/b/1")])
    assert joined.download_as_bytes() == b"own/aown/b/1"
    with pytest.raises(PreconditionFailed):
        bucket.blob("own/large", chunk_size=1 << 20).upload_from_string(large, if_generation_match=0)
    with client.batch():
        bucket.blob("own/z").delete()
        bucket.blob("own/joined").delete()
    with pytest.raises(NotFound):
        bucket.blob("own/z").download_as_bytes()


@pytest.mark.service
def test_what_it_does_not_understand_is_a_clear_refusal(gcs_endpoint: Endpoint) -> None:
    address = gcs_endpoint.environment["STORAGE_EMULATOR_HOST"]
    with httpx.Client(trust_env=False) as client:
        for method, path, body, status in (
            ("POST", "/storage/v1/b", "[" * 100_000, 400),
            ("POST", "/storage/v1/b", '{"name": "../x"}', 400),
            ("GET", "/storage/v1/b/cdc-backup/o/%ff", "", 400),
            ("PATCH", "/storage/v1/b/cdc-backup", "{}", 400),
            ("POST", "/upload/storage/v1/b/cdc-backup/o?uploadType=multipart", "x", 400),
            ("PUT", "/upload/storage/v1/b/cdc-backup/o?upload_id=none", "x", 404),
        ):
            answer = client.request(method, address + path, content=body)
            assert (answer.status_code, "error" in answer.json()) == (status, True), (path, answer.text)
