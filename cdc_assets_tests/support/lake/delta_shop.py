"""A lake of one source that delta-rs writes, without a JVM: what readers find of it is known."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

SHOP = """\
source: shop
kind: topics
cluster: lake
tables:
  - name: orders
    topic: core.shop.public.orders
    envelope: debezium-json
    connector: postgresql
    keys: [id]
    columns: {id: integer not null, customer: text, total: "numeric(10,2)"}
    sensitive: [customer]
    history: scd2
  - name: order
    topic: core.shop.public.order
    envelope: debezium-json
    connector: postgresql
    keys: [id]
    columns: {id: integer not null, note: text}
"""
NOON = dt.datetime(2026, 11, 25, 12, tzinfo=dt.timezone.utc)
CUSTOMERS = ("ann@example.org", "bob@example.org", "ann@example.org", None)


def write_shop(root: Path) -> dict[str, str]:
    """The registry and the lake below `root`; the variables by which `cdc` finds both."""
    sources, lake = root / "sources", root / "lake"
    sources.mkdir()
    (sources / "shop.yaml").write_text(SHOP)
    orders = [
        {"id": n, "customer": customer, "total": f"{n}.50", "_cdc_position": f"{n:020}", "_cdc_op": "c"}
        for n, customer in enumerate(CUSTOMERS, start=1)
    ]
    schema = pa.schema([("id", pa.int32()), *((name, pa.string()) for name in ("customer", "total", "_cdc_position", "_cdc_op"))])
    write(lake / "silver/shop/orders", pa.Table.from_pylist(orders, schema))
    write(lake / "silver/shop/order", pa.table({"id": [1], "note": ["a singular name"]}))
    records = [
        {"table": table, "offset": n, "timestamp": NOON, "value": b'{"customer": "ann@example.org"}', "op": "c"}
        for n, table in enumerate(("orders", "orders", "order"))
    ]
    write(lake / "bronze/shop", pa.Table.from_pylist(records))
    return {"CDC_HOME": str(root / "home"), "CDC_SOURCES": str(sources), "CDC_LAKE": str(lake)}


def write(path: Path, rows: pa.Table, **settings: Any) -> None:
    """One commit of these rows."""
    path.mkdir(parents=True, exist_ok=True)
    write_deltalake(str(path), rows, mode="append", **settings)
