"""Which tables are left out of a connector: those that fail a rule, and none that a rule only warns of."""

from __future__ import annotations

from typing import cast

import pytest

from cdc_assets.capture.preflight import capturable_tables
from cdc_assets.capture.preflight.inspection import Finding, Level
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry.source_declaration import Source

NAMES = ("public.bad", "public.good", "public.held", "public.listed")


def test_a_table_whose_rows_cannot_be_looked_at_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody holds it for a while: an opening by a server that took over went on without it."""
    database = {"kind": "postgresql", "host": "db", "dbname": "shop", "user": "shop", "password": {"secret": "shop"}}
    source = Source.model_validate({"source": "shop", "database": database, "tables": [{"name": name} for name in NAMES]})
    levels: dict[str, Level] = {"public.bad": "fail", "public.held": "warn", "public.listed": "fail"}
    found = [Finding("columns", level, name, "as told") for name, level in levels.items()]
    monkeypatch.setattr(capturable_tables, "uncapturable_findings", lambda *_: iter(found))
    monkeypatch.setattr(capturable_tables, "tables_in_list", lambda *_: ["public.listed"])
    rest = capturable_tables.without_uncapturable(Chain(cast(Platform, None), source), {})
    assert [table.name for table in rest.tables] == ["public.good", "public.held", "public.listed"]
