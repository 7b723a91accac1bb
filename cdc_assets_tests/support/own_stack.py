"""A stack of the test's own, of which only some components run."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from cdc_assets.stack.component_state import ComponentState, read_state
from cdc_assets.stack.home import Home

# Addresses for all others: nothing of ours is started for these.
ELSEWHERE = {
    "CDC_CORE_BOOTSTRAP": "127.0.0.1:9",
    "CDC_LAKE_BOOTSTRAP": "127.0.0.1:9",
    "CDC_CORE_CONNECT": "http://127.0.0.1:9",
    "CDC_LAKE_CONNECT": "http://127.0.0.1:9",
    "CDC_SPARK_REMOTE": "sc://127.0.0.1:9",
    "CDC_DAGSTER_URL": "http://127.0.0.1:9",
    "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",
}
_SHOP = """
source: shop
database: {kind: postgresql, host: 127.0.0.1, dbname: shop, user: cdc, password: {secret: shop}}
backup: {store: {kind: gcs, bucket: cdc-backup, prefix: lake}}
tables: [{name: public.orders}]
"""


def named_gcs(folder: Path) -> dict[str, str]:
    """The variable of a folder of sources, of which one backs up to GCS: its endpoint is started only then."""
    folder.mkdir()
    (folder / "shop.yaml").write_text(_SHOP)
    return {"CDC_SOURCES": str(folder)}


def until(condition: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.1)


def state_of(home: Home, name: str) -> ComponentState:
    state = read_state(home)
    assert state
    return next(c for c in state.components if c.name == name)
