"""What the supervisor runs once Spark is healthy after a restart: the real process, with a registry that stops it early."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets.reading.spark_catalog import are_kept, forget_names, keep_names
from cdc_assets.registry.durable_file import replace_json
from cdc_assets.stack.component import Site
from cdc_assets.stack.components import spark_connect_server
from cdc_assets.stack.components.spark_connect_server import SparkConnect
from cdc_assets.stack.home import Home
from cdc_assets.stack.loopback import assign
from cdc_assets.stack.stack_errors import NotReadyError


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home").create()
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "shop.yaml").write_text("source: shop\nkind: nothing\n")
    replace_json(home.stack, {"environment": {"CDC_SOURCES": str(tmp_path / "sources"), "CDC_LAKE": str(tmp_path / "lake")}})
    return home


def spark(home: Home) -> SparkConnect:
    return SparkConnect(Site(home, assign((spark_connect_server.NAME,), {})))


def test_nothing_is_run_where_nobody_asked_for_names(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "cdc_assets.stack.components.spark_connect_server.subprocess.run", lambda *_, **__: pytest.fail("it runs")
    )
    spark(home).recall()
    keep_names(home, show_sensitive=True)
    forget_names(home)
    assert not are_kept(home)
    spark(home).recall()


@pytest.mark.slow
def test_the_process_reads_the_registry_of_the_stack_and_its_reason_is_told(home: Home, tmp_path: Path) -> None:
    keep_names(home, show_sensitive=False)
    with pytest.raises(NotReadyError, match=r"cdc sql --register\) failed: .*shop\.yaml.*nothing"):
        spark(home).recall()
