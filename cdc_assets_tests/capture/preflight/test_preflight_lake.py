"""`cdc preflight` of a lake in the stack's S3 and GCS endpoints, and of one that forgets the condition of a put."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from cdc_assets.capture.preflight.lake_and_spark import PROBES, inspect_lake
from cdc_assets_tests.support.servers.endpoints import SCHEMES, Endpoint
from spark.table import buckets
from spark.table.buckets import GcsBucket, S3Bucket
from spark.table.table_folder import open_folder

pytestmark = pytest.mark.service


@pytest.fixture(params=[*SCHEMES])
def endpoint(request: pytest.FixtureRequest) -> Endpoint:
    found: Endpoint = request.getfixturevalue(f"{request.param}_endpoint")
    return found


@pytest.fixture
def root(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in endpoint.environment.items():
        monkeypatch.setenv(name, value)
    return f"{SCHEMES[endpoint.kind]}://cdc-backup/{uuid.uuid4().hex}"


def found(root: str) -> dict[str, str]:
    report = inspect_lake(root)
    assert report is not None
    return {finding.check: finding.level for finding in report.findings}


def test_a_lake_on_a_disk_is_not_asked(tmp_path: Path) -> None:
    assert inspect_lake(str(tmp_path)) is None


def test_all_holds_and_nothing_is_left(root: str) -> None:
    assert found(root) == {"clock": "ok", "rights": "ok", "conditional_put": "ok"}
    assert not open_folder(root).has_files(PROBES)


WRONG = {
    "s3a": [
        ("AWS_SECRET_ACCESS_KEY", "another", "SignatureDoesNotMatch"),
        ("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9", "Could not connect"),
    ],
    "gs": [
        ("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9", "Failed to establish a new connection"),
        ("STORAGE_EMULATOR_HOST", "https://127.0.0.1:9", "/no/such.json was not found"),
    ],
}


def test_what_the_store_refuses(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "_REPEAT_SECONDS", 1.0)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/no/such.json")
    for variable, value, said in WRONG[root.partition("://")[0]]:
        with monkeypatch.context() as patch:
            patch.setenv(variable, value)
            report = inspect_lake(root)
        assert report is not None
        [failure] = report.failures
        assert said in failure.message


def test_a_bucket_that_is_not_there(root: str) -> None:
    report = inspect_lake(root.replace("cdc-backup", "no-such-bucket"))
    assert report is not None
    assert ("NoSuchBucket" if root.startswith("s3a") else "404 GET") in report.failures[0].message


def test_a_store_that_overwrites_is_refused(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that does not know the condition of a put."""
    for store in (S3Bucket, GcsBucket):
        put = store._put
        monkeypatch.setattr(store, "_put", lambda self, name, content, put=put, **_: put(self, name, content))
    report = inspect_lake(root)
    assert report is not None
    [failure] = report.failures
    assert failure.check == "conditional_put"
    assert "it took 2 files, and holds 'two': commits would be lost" in failure.message
