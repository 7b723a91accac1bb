"""A sensitive column is hidden under each name that silver knows of it, wherever the lake is."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets import names
from cdc_assets.peek import decoded_record
from cdc_assets.peek.decoded_record import Decoder
from cdc_assets.peek.topic_place import TopicPlace
from cdc_assets_tests.support.declared import declare_source
from spark.schema.column_ledger import Column, ColumnLedger

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
    monkeypatch.setattr(decoded_record, "ledger_of", known.get)
    place = TopicPlace(names.topic(source, table), "core", source, table)
    assert Decoder(place, lake).sensitive == ["buyer", "customer"]
    assert Decoder(place, lake, show_sensitive=True).sensitive == []
