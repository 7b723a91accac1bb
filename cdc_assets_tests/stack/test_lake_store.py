"""What Spark's processes of the stack are told of the lake's store: the embedded endpoint's address, or the user's own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cdc_assets.stack.component import Site
from cdc_assets.stack.components.spark_cluster import lake_conf, store_variables
from cdc_assets.stack.components.spark_connect_server import SparkConnect
from cdc_assets.stack.declared_needs import buckets
from cdc_assets.stack.home import Home

ELSEWHERE = {"STORAGE_EMULATOR_HOST": "https://storage.googleapis.com", "AWS_ENDPOINT_URL_S3": "https://s3.example"}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    for name in [name for name in os.environ if name.startswith(("AWS_", "GOOGLE_", "STORAGE_", "CDC_LAKE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CDC_SOURCES", str(tmp_path / "none"))
    home = Home(tmp_path / "home")
    home.create()
    return Site(home, {"gcs": 4443, "s3": 9000})


def test_a_lake_on_a_disk_needs_nothing(site: Site, tmp_path: Path) -> None:
    assert lake_conf(site, tmp_path) == {}
    assert "STORAGE_EMULATOR_HOST" not in store_variables(site)


def test_a_lake_in_the_embedded_gcs(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_LAKE", "gs://lake/of/ours")
    address = f"http://127.0.0.1:4443/{site.home.private('gcs_key')}"
    assert store_variables(site)["STORAGE_EMULATOR_HOST"] == address
    assert "AWS_SECRET_ACCESS_KEY" not in store_variables(site)
    assert lake_conf(site, tmp_path)["spark.hadoop.fs.gs.storage.root.url"] == "http://127.0.0.1:4443/"
    assert not any("s3a" in name for name in lake_conf(site, tmp_path))
    assert buckets() == {"gcs": ("lake",)}


def test_the_key_of_the_embedded_gcs_is_on_no_command_line(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_LAKE", "gs://lake/of/ours")
    server = SparkConnect(Site(site.home, {**site.ports, "spark-connect": 15002}))
    server.prepare()
    key, told = site.home.private("gcs_key"), server.run / "spark.properties"
    assert key not in " ".join(server.command())
    assert (key in told.read_text(), told.stat().st_mode & 0o077) == (True, 0)


def test_a_lake_in_a_gcs_of_somebody_elses(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**ELSEWHERE, "CDC_LAKE": "gs://lake", "GOOGLE_APPLICATION_CREDENTIALS": "/etc/key.json"}.items():
        monkeypatch.setenv(name, value)
    outside = Site(site.home, {}, external=ELSEWHERE)
    told = store_variables(outside)
    assert (told["STORAGE_EMULATOR_HOST"], told["GOOGLE_APPLICATION_CREDENTIALS"]) == (
        ELSEWHERE["STORAGE_EMULATOR_HOST"],
        "/etc/key.json",
    )
    conf = lake_conf(outside, tmp_path)
    assert conf["spark.hadoop.fs.gs.auth.type"] == "APPLICATION_DEFAULT"
    assert "/etc/key.json" not in str(conf)


def test_a_lake_in_the_embedded_s3(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_LAKE", "s3a://lake/of/ours")
    assert store_variables(site)["AWS_ENDPOINT_URL_S3"] == "http://127.0.0.1:9000"
    assert lake_conf(site, tmp_path)["spark.hadoop.fs.s3a.buffer.dir"] == str(tmp_path)
    assert buckets() == {"s3": ("lake",)}
