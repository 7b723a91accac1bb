"""A sensitive column is hidden under each name that silver knows of it, wherever the lake is."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets.reading import topic_records
from cdc_assets.reading.topic_records import Decoder, TopicPlace
from cdc_assets.registry import names
from cdc_assets_tests.support.declared import declare_source
from spark.silver.column_ledger import Column, ColumnLedger

SHOP = """
source: shop
database: {kind: postgresql, host: db, dbname: shop, user: cdc, password: {secret: shop}}
tables: [{name: public.orders, sensitive: [customer]}]
"""


@pytest.mark.parametrize("lake", ["/lake", "s3a://bucket/lake", "gs://bucket/lake"])
def test_the_names_of_silvers_ledger(lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = declare_source(tmp_path, monkeypatch, SHOP)
    (table,) = source.tables
    ledger = ColumnLedger((Column("customer", "text", True, "customer", formerly=("buyer",)), Column("id", "int4", False, "id")))
    known = {names.silver_path(lake, source, table): ledger}
    monkeypatch.setattr(topic_records, "ledger_of", known.get)
    place = TopicPlace(names.topic(source, table), "core", source, table)
    assert Decoder(place, lake).sensitive == ["buyer", "customer"]
    assert Decoder(place, lake, show_sensitive=True).sensitive == []
