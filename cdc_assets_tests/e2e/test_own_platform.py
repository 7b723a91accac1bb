"""Kafka, Connect and the database are somebody else's: docs/how-to/your-own-platform.md is followed to the letter."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from cdc_assets.stack.home import Home
from cdc_assets.stack.loopback import HOST
from cdc_assets_tests.e2e.source_rows import silver_rows, source_rows
from cdc_assets_tests.support.lakehouse import ROOT, Lakehouse
from cdc_assets_tests.support.live.cdc import REGISTRY, Lake
from cdc_assets_tests.support.live.live_source import NAME, LiveSource
from cdc_assets_tests.support.page_blocks import blocks_of

pytestmark = [pytest.mark.e2e, pytest.mark.all]

SOURCE, TABLE = "theirs", "theirs_orders"


@dataclass
class Reader(Lakehouse):
    """Somebody who follows the page in a folder."""

    addresses_block: str = ""

    def give(self, block: str) -> str:
        """What the block prints, given after the one with the addresses."""
        return self.follow(self.sources.parent, block, f"{self.addresses_block}\n{block}")


@pytest.fixture(scope="module")
def reader(live: LiveSource, lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    with live.connection() as connection:
        connection.execute(f"CREATE TABLE public.{TABLE} (id int PRIMARY KEY, v text)".encode())
        connection.execute(f"INSERT INTO public.{TABLE} SELECT i, 'row ' || i FROM generate_series(1, 300) i".encode())
    sources, home = tmp_path_factory.mktemp("theirs") / "sources", Path(tempfile.mkdtemp(prefix="cdc-theirs-"))
    sources.mkdir()
    (sources.parent / "gold.py").write_text("")
    (sources.parent / "cdc").symlink_to(ROOT / "cdc")
    port = live.postgres.site.ports["postgres"]
    text = REGISTRY.format(name=SOURCE, host=HOST, port=port, db=NAME, tables=f"{{name: public.{TABLE}}}", heartbeat="10s")
    (sources / f"{SOURCE}.yaml").write_text(text)
    secret = Home(home).create().secrets / NAME
    secret.write_text(live.home.secret(NAME))
    secret.chmod(0o600)
    given = {
        "CDC_CORE_BOOTSTRAP": live.bootstrap,
        "CDC_LAKE_BOOTSTRAP": lake.bootstrap,
        "CDC_CORE_CONNECT": live.connect.url,
        "CDC_LAKE_CONNECT": lake.connect.url,
        "CDC_CONNECT_SECRETS": str(live.home.secrets),
    }
    block = blocks_of("your-own-platform.md", "sh")["addresses"]
    for name, value in given.items():
        block, count = re.subn(rf"{name}=\S+", f"{name}={value}", block)
        assert count == 1, name
    made = Reader(home, sources, cast(Any, None), addresses_block=block)
    try:
        yield made
    finally:
        made.cdc("down", "--wipe", "--yes", timeout=180, check=False)
        shutil.rmtree(home, ignore_errors=True)
        live.connect.delete(f"{SOURCE}-capture")


def assert_equal(reader: Reader, live: LiveSource, rows: int) -> None:
    reader.give("./cdc wait --timeout 400")
    with live.connection() as connection:
        columns, expected = source_rows(connection, TABLE)
    assert expected.total() == rows
    assert silver_rows(reader.home / "lake" / "silver" / SOURCE / TABLE, columns) == expected


def test_the_page_is_followed_to_the_letter(reader: Reader, live: LiveSource) -> None:
    blocks = blocks_of("your-own-platform.md", "sh")
    assert list(blocks) == ["addresses", "start", "spark", "see"]
    reader.give(blocks["start"])
    started = {file.name for file in (reader.home / "logs").iterdir()}
    assert not {name for name in started if "kafka" in name or "-connect" in name.replace("spark-connect", "")}, started
    assert_equal(reader, live, 300)
    told = reader.give(blocks["spark"])
    assert {"jars.sha256", "requirements.txt", "spark-defaults.conf"} <= set(told.split())
    seen = reader.give(blocks["see"])
    assert f"{SOURCE}-mirror: unchanged, RUNNING" in seen
    assert re.search(rf"{SOURCE} +{TABLE} .*pass", seen), seen
    with live.connection() as connection:
        connection.execute(f"UPDATE {TABLE} SET v = 'later' WHERE id < 50".encode())
        connection.execute(f"DELETE FROM {TABLE} WHERE id = 300".encode())
    assert_equal(reader, live, 299)
