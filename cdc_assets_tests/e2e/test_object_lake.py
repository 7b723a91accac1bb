"""The examples with three brokers a cluster and their lake in a store: chain, checks, comparison, nothing on the disk."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc_assets_tests.e2e.own_lakehouse import own_lakehouse
from cdc_assets_tests.e2e.source_rows import source_rows
from cdc_assets_tests.support.lake.delta_reader import read
from cdc_assets_tests.support.lakehouse import Lakehouse

pytestmark = [pytest.mark.e2e, pytest.mark.all]


class ObjectLakehouse(Lakehouse):
    """Its lake is in an endpoint that it starts itself."""

    lake: str

    def environment(self, **more: str) -> dict[str, str]:
        return super().environment(CDC_LAKE=self.lake, **more)


class S3Lakehouse(ObjectLakehouse):
    lake = "s3a://cdc-lake/of/tests"


class GcsLakehouse(ObjectLakehouse):
    lake = "gs://cdc-lake/of/tests"


@pytest.fixture(scope="module", params=[S3Lakehouse, GcsLakehouse])
def house(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectLakehouse]:
    kind: type[ObjectLakehouse] = request.param
    with own_lakehouse(kind, tmp_path_factory.mktemp("sources"), "--brokers", "3") as made:
        yield made


def test_up_fills_the_lake(house: ObjectLakehouse) -> None:
    assert "failed" not in house.up_output
    assert house.addresses["CDC_LAKE"] == house.lake
    assert not [*(house.home / "lake").rglob("_delta_log")]
    rows = json.loads(house.cdc("status", "--no-tables", "-o", "json").stdout)["components"]
    assert sum("kafka" in row["name"] for row in rows) == 6


def test_changes_arrive_and_compare_equal(house: ObjectLakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    with house.connect("world") as world:
        world.execute("UPDATE country SET population = population + 1 WHERE iso < 'F'")
        world.execute("DELETE FROM city WHERE geonameid % 50 = 0")
        waited = json.loads(house.cdc("wait", "--timeout", "600", "-o", "json", timeout=700).stdout)["sources"]
        expected = {table: source_rows(world, table) for table in ("country", "city")}
    for name, value in house.addresses.items():
        if name.startswith(("AWS_", "STORAGE_")):
            monkeypatch.setenv(name, value)
    for table, (columns, rows) in expected.items():
        assert waited["world"]["tables"][table]["version"] > 0
        found = read(f"{house.lake}/silver/world/{table}")
        assert Counter(_plain(row[name] for name in columns) for row in found) == rows, table
    told = house.cdc("reconcile", timeout=1500)
    assert told.returncode == 0


def test_a_look_reads_the_lake_there(house: ObjectLakehouse) -> None:
    assert house.cdc("ledger", "world.country", "--count", timeout=300).returncode == 0
    tables = json.loads(house.cdc("status", "-o", "json", check=False).stdout)["tables"]
    assert {row["silver_rows"] > 0 for row in tables if "world" in json.dumps(row)} == {True}
    assert house.cdc("now", "world", "country", timeout=300).stdout
    assert house.cdc("preflight", timeout=300).returncode == 0


def test_no_secret_is_on_a_command_line(house: ObjectLakehouse) -> None:
    secret = house.addresses["AWS_SECRET_ACCESS_KEY"]
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            try:
                line = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            assert secret.encode() not in line


def _plain(values: Any) -> tuple[Any, ...]:
    return tuple(tuple(value) if isinstance(value, list) else value for value in values)
