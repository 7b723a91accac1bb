"""`./cdc up` of a bare machine with a source in Avro: the converter is fetched, and rows come to silver by Dagster's own sensor.

The schema registry is Apicurio, behind a login.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from cdc_assets.stack.home import Home
from cdc_assets_tests.e2e.source_rows import silver_rows, source_rows
from cdc_assets_tests.support.lakehouse import ROOT, Lakehouse
from cdc_assets_tests.support.servers.apicurio import Apicurio, apicurio
from cdc_assets_tests.support.servers.login_front import login_front

pytestmark = [pytest.mark.e2e, pytest.mark.all]
PASSWORD = "a canary/of the registry"
CAPTURE = """
capture:
  envelope: debezium-avro
  schema_registry: {{url: "{url}", user: cdc, password: {{secret: registry_password}}}}
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakehouse]:
    home, sources = Path(tempfile.mkdtemp(prefix="cdc-avro-")), tmp_path_factory.mktemp("avro") / "sources"
    sources.mkdir()
    (sources.parent / "gold.py").write_text("")
    secret = Home(home).create().secrets / "registry_password"
    secret.write_text(PASSWORD)
    secret.chmod(0o600)
    found = Lakehouse(home, sources, cast(Any, None))
    with apicurio(sources.parent / "apicurio") as registry, login_front(registry.address, "cdc", PASSWORD) as front:
        example = (ROOT / "cdc_assets" / "sources" / "world.yaml").read_text()
        (sources / "world.yaml").write_text(example + CAPTURE.format(url=Apicurio(front).url))
        try:
            found.up_output = found.cdc("up", timeout=1500).stdout
            yield found
        finally:
            found.cdc("down", "--wipe", "--yes", timeout=180, check=False)
            shutil.rmtree(home, ignore_errors=True)


def assert_equal(house: Lakehouse) -> None:
    house.cdc("wait", "world", "--timeout", "400")
    for table in ("country", "city"):
        with house.connect("world") as world:
            columns, rows = source_rows(world, table)
        assert len(rows) > 200
        assert silver_rows(house.silver("world", table), columns) == rows, table


def test_rows_come_and_are_proven(house: Lakehouse) -> None:
    assert_equal(house)
    with house.connect("world") as world:
        world.execute("UPDATE country SET population = population + 1, capital = NULL WHERE iso IN ('LI', 'FR')")
        world.execute("DELETE FROM city WHERE population < 16000")
        world.execute("ALTER TABLE country ADD visited int DEFAULT 7")
        world.execute("UPDATE country SET visited = NULL WHERE iso = 'LI'")
    assert_equal(house)
    for verdict in json.loads(house.cdc("reconcile", "world", "-o", "json").stdout):
        assert verdict["verdict"] == "equal", verdict
    assert house.cdc("preflight", "world").returncode == 0
    logs = "".join(file.read_text(errors="replace") for file in (house.home / "logs").glob("*.log"))
    assert "NullKeepingAvroConverter" in logs
    assert PASSWORD not in logs
