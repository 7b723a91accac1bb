"""A source called shop with its change log, a backup of it, and a lake that is empty."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.recovery.restore_point import RestoreRequest
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.backup.conftest import any_store as any_store
from cdc_assets_tests.backup.conftest import root as root
from cdc_assets_tests.backup.conftest import shared_stores as shared_stores
from cdc_assets_tests.backup.conftest import store as store
from cdc_assets_tests.recovery.original import Original
from cdc_assets_tests.support.declared import declare_source

SHOP = """
source: shop
database: {{kind: postgresql, host: localhost, dbname: shop, user: shop, password: {{secret: shop}}}}
backup: {{store: {{kind: local, bucket: {bucket}, prefix: lake}}}}
tables: [{{name: public.orders}}, {{name: public.customers}}]
"""
Ask = Callable[..., RestoreRequest]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    return declare_source(tmp_path, monkeypatch, SHOP.format(bucket=tmp_path / "bucket"))


@pytest.fixture
def original(tmp_path: Path) -> Original:
    return Original(str(tmp_path / "was/bronze/shop"))


@pytest.fixture
def ask(shop: Source, tmp_path: Path) -> Ask:
    """A request for all tables of the source; an own lake each, unless one is named."""

    def make(store: ObjectStore, lake: str = "lake", **more: object) -> RestoreRequest:
        return RestoreRequest(shop, shop.tables, store, str(tmp_path / lake), **more)  # type: ignore[arg-type]

    return make
