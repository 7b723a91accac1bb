"""A key that earlier versions knew is answered with what is declared instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets.registry_files.errors import RegistryError
from cdc_assets.registry_files.loader import load_source

SHOP = """\
source: shop
database: {kind: postgresql, host: h, dbname: shop, user: cdc, password: {secret: p}}
tables: [{name: public.orders}]
%s: {kind: s3, bucket: raw}
"""


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("sink", "sink connectors are no longer declared here; declare backup: with store, hours and values instead"),
        ("sinks", "unknown key; accepted: backup, "),
    ],
)
def test_what_is_declared_instead(tmp_path: Path, key: str, said: str) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(SHOP % key, encoding="utf-8")
    with pytest.raises(RegistryError) as caught:
        load_source(file)
    (finding,) = caught.value.findings
    assert str(finding).startswith(f"{file}:4: {key}: {said}")
