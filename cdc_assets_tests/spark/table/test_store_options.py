"""How a store is reached, by the environment alone: what each client is told, and that no key is among it."""

from __future__ import annotations

import pytest

from spark.table.lake_location import GOOGLE, delta_options, gcs_url, spark_conf, spark_variables

EMULATOR = {"STORAGE_EMULATOR_HOST": "http://127.0.0.1:4443/"}
OWN = {
    "GOOGLE_APPLICATION_CREDENTIALS": "/etc/cdc/key.json",
    "GOOGLE_SERVICE_ACCOUNT_KEY": "a key",
    "AWS_SECRET_ACCESS_KEY": "a key",
}
_GS, _S3 = "gs://lake/of/ours", "s3a://lake/of/ours"


def test_an_emulator_is_asked_without_a_login() -> None:
    told = spark_conf(_GS, EMULATOR)
    assert told["spark.hadoop.fs.gs.storage.root.url"] == "http://127.0.0.1:4443/"
    assert told["spark.hadoop.fs.gs.auth.type"] == "UNAUTHENTICATED"
    assert delta_options(_GS, EMULATOR) == {
        "google_base_url": "http://127.0.0.1:4443",
        "google_skip_signature": "true",
        "allow_http": "true",
    }


@pytest.mark.parametrize("address", [{}, {"STORAGE_EMULATOR_HOST": ""}, {"STORAGE_EMULATOR_HOST": GOOGLE}])
def test_googles_own_is_asked_with_the_environments_login(address: dict[str, str]) -> None:
    assert gcs_url(address) == GOOGLE
    told = spark_conf(_GS, {**address, **OWN})
    assert told["spark.hadoop.fs.gs.storage.root.url"] == f"{GOOGLE}/"
    assert told["spark.hadoop.fs.gs.auth.type"] == "APPLICATION_DEFAULT"
    assert delta_options(_GS, {**address, **OWN}) == {}
    assert delta_options(_GS, {"STORAGE_EMULATOR_HOST": "https://gcs.example"}) == {"google_base_url": "https://gcs.example"}


def test_each_store_has_settings_of_its_own_and_a_disk_has_none() -> None:
    assert {name.split(".")[3] for name in spark_conf(_S3, EMULATOR) if name.startswith("spark.hadoop")} == {"s3a"}
    assert not any("s3a" in name for name in spark_conf(_GS, OWN))
    assert (spark_conf("/lake"), delta_options("/lake"), spark_variables("/lake"), spark_variables(_GS)) == ({}, None, {}, {})
    for path in (_GS, _S3):
        assert "key" not in str([spark_conf(path, OWN), delta_options(path, OWN)])
