"""A source of kind mariadb, as a file of the registry declares it."""

from __future__ import annotations

from pathlib import Path

from cdc_assets.registry.loader import load_source
from cdc_assets.registry.source_declaration import Source

GOOD = """\
source: shop
database: {kind: mariadb, host: db, user: cdc, password: {secret: shop}}
tables:
  - {name: shop.orders}
  - {name: 'shop."order,lines"', keys: [a, b]}
"""


def loaded(folder: Path, text: str) -> Source:
    file = folder / "shop.yaml"
    file.write_text(text)
    found = load_source(file)
    assert isinstance(found, Source)
    return found
