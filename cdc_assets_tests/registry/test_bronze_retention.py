"""For how long bronze keeps its records: only with a backup, and longer than whoever counts or reads them again."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from cdc_assets.registry.errors import RegistryError
from cdc_assets_tests.support.declared import declare_source

SHOP = """
source: shop
database: {kind: postgresql, host: localhost, dbname: shop, user: shop, password: {secret: shop}}
backup: {store: {kind: local, bucket: /tmp/b, prefix: lake}, every: 5m}
tables: [{name: public.orders}]
"""


def test_it_is_kept_for_ever_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert declare_source(tmp_path, monkeypatch, SHOP).bronze.keep is None


def test_a_time_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert declare_source(tmp_path, monkeypatch, SHOP + "bronze: {keep: 90d}\n").bronze.keep == timedelta(days=90)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (SHOP.replace("backup:", "# backup:") + "bronze: {keep: 90d}", "declares no backup, and what goes from bronze"),
        (SHOP + "bronze: {keep: 6d}", "7d at least: a late event asks for all events"),
        (SHOP + "bronze: {keep: 7d}", "is not longer than topics.retention, 7 days"),
        (SHOP + "bronze: {keep: 30d}\nledger: {allowed_lateness: 30d}", "is not longer than ledger.allowed_lateness"),
        (SHOP + "bronze: {keep: 30d}\nmaintenance: {time_travel: 40d}", "is not longer than maintenance.time_travel"),
    ],
)
def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, sentence: str) -> None:
    with pytest.raises(RegistryError, match=sentence):
        declare_source(tmp_path, monkeypatch, text)
