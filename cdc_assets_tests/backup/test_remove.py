"""`cdc remove --delete lake,backup` on a real store: the source's objects go, whatever lies beside them stays; and not before
whoever writes a table has ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.recovery import removal
from cdc_assets.registry.errors import CdcAssetsError
from cdc_assets_tests.support.servers.endpoints import SCHEMES, Endpoint
from spark.table.write_lease import SPARK, hold

KEPT = "connector,slot,publication,tables,mirror,registry"
RECORDS = "2026/01/01/00/leaver.public.{}+0+0+00000000000000000000.json.gz"
OF_A_TABLE = ("_manifests/0000-00000000000000000000.json", "_plans/0000-00000000000000000000.json", "_newest")
LAYERS = ("bronze", "silver", "quarantine", "ledger")
OF_THE_LAKE = ("_delta_log/00000000000000000000.json", "orders/_delta_log/00000000000000000000.json", "orders/a=1/part.parquet")
OTHERS = ("moving/leaver2/orders/_newest", "moving/leaver/notes.txt", "moving/leaver/orders.txt", "leaver/orders/_newest")
OURS = ("moving/", "leaver/", "lakes/one/")


class Bucket:
    """What of the bucket is this test's, by the provider's own client."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._config = endpoint.config
        self._client: Any = _s3(endpoint) if endpoint.kind == "s3" else _gcs(endpoint)

    def put(self, keys: Sequence[str]) -> None:
        for key in keys:
            if self._config.kind == "s3":
                self._client.put_object(Bucket=self._config.bucket, Key=key, Body=b"x")
            else:
                self._client.bucket(self._config.bucket).blob(key).upload_from_string(b"x")

    def keys(self) -> set[str]:
        if self._config.kind == "s3":
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._config.bucket)
            found = {item["Key"] for page in pages for item in page.get("Contents", ())}
        else:
            found = {blob.name for blob in self._client.list_blobs(self._config.bucket)}
        return {key for key in found if key.startswith(OURS)}


def _s3(endpoint: Endpoint) -> Any:
    import boto3

    return boto3.client("s3", endpoint_url=endpoint.config.endpoint, region_name="us-east-1")


def _gcs(endpoint: Endpoint) -> Any:
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    options = {"api_endpoint": endpoint.config.endpoint}
    return storage.Client(project="test", credentials=AnonymousCredentials(), client_options=options)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("endpoint", ["s3", "gcs"], indirect=True)
def test_the_objects_of_a_source_go_and_nothing_else(endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket, store = Bucket(endpoint), {**endpoint.config.model_dump(mode="json"), "prefix": "moving"}
    former = set(bucket.keys())
    lake = {f"lakes/one/{layer}/leaver/{key}" for layer in LAYERS for key in OF_THE_LAKE}
    beside = {f"lakes/one/{layer}/leaver2/{key}" for layer in LAYERS for key in OF_THE_LAKE}
    bucket.put([*lake, *beside])
    own = {f"moving/leaver/{table}/{key}" for table in ("orders", "retired") for key in (RECORDS.format(table), *OF_A_TABLE)}
    own.add("moving/leaver/kept-cuts/leaver-20261121T140000Z.json")
    bucket.put([*own, *OTHERS])
    folder = tmp_path / "sources"
    folder.mkdir()
    database = {"kind": "postgresql", "host": "127.0.0.1", "port": 1, "dbname": "d", "user": "u", "password": {"secret": "s"}}
    lines = {"source": "leaver", "database": database, "backup": {"store": store}, "tables": [{"name": "public.orders"}]}
    (folder / "leaver.yaml").write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in lines.items()))
    monkeypatch.setenv("CDC_SOURCES", str(folder))
    monkeypatch.setenv("CDC_HOME", str(tmp_path / "home"))
    root = f"{SCHEMES[endpoint.kind]}://cdc-backup/lakes/one"
    for name, value in {**endpoint.environment, "CDC_LAKE": root}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(removal, "_WAITS_SECONDS", 0.5)

    def remove(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["remove", "leaver", "--keep", KEPT, *arguments])

    assert remove("--yes").exit_code == 0
    assert remove("--delete", "lake,backup", "--dry-run").exit_code == 0
    assert bucket.keys() - former == own | lake | beside | set(OTHERS)
    with hold(f"{root}/silver/leaver/orders", SPARK, seconds=0):
        held = remove("--delete", "lake", "--yes")
        assert isinstance(held.exception, CdcAssetsError) or held.exit_code == 1
        assert "is being written by spark" in f"{held.output}{held.exception}"
        assert lake <= bucket.keys()
    result = remove("--delete", "lake,backup", "--yes")
    assert bucket.keys() - former == beside | set(OTHERS), result.output
    assert result.exit_code == 0, result.output
    for layer in LAYERS:
        assert f"folder {root}/{layer}/leaver" in result.output
