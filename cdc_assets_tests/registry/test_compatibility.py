"""`compatibility: portable`: by source and table, what it refuses, and what is told of a table that is not."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from cdc_assets.capture.source_columns import catalogue_table
from cdc_assets.chain.fold_specs import silver_spec
from cdc_assets.chain.table_drift import portability_findings
from cdc_assets.cli.cdc_command import app
from cdc_assets.registry.errors import RegistryError
from cdc_assets.registry.source_declaration import BaseSource, TopicSource
from cdc_assets_tests.support.declared import declare_source
from cdc_assets_tests.support.lake.delta_shop import write
from spark.silver.task_merge import upgrade_protocol
from spark.table.delta_table import table_of

SHOP = """\
source: shop
kind: topics
compatibility: portable
tables:
  - {name: orders, topic: t.orders, envelope: json, keys: [id], columns: {id: integer}}
  - {name: lines, topic: t.lines, envelope: json, keys: [id], columns: {id: integer}, compatibility: current}
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BaseSource:
    return declare_source(tmp_path, monkeypatch, SHOP, TopicSource)


def test_a_tables_own_stands_for_the_sources(shop: TopicSource) -> None:
    assert [shop.is_portable(table) for table in shop.tables] == [True, False]
    assert [silver_spec("/lake", shop, table, catalogue_table(table)).portable for table in shop.tables] == [True, False]


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        ("keys: [id], columns: {id: integer}}", "keys: [id], columns: {id: integer, the v: text}}", "'the v'"),
        ("compatibility: portable", "compatibility: portable\nschema_changes: {widen: evolve}", "take widen: rewrite"),
    ],
)
def test_what_needs_a_feature_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was: str, now: str, told: str) -> None:
    with pytest.raises(RegistryError, match="table orders: compatibility: portable") as refused:
        declare_source(tmp_path, monkeypatch, SHOP.replace(was, now, 1), TopicSource)
    assert told in str(refused.value)


def test_a_table_that_is_not_portable_is_told(shop: BaseSource, tmp_path: Path) -> None:
    path = tmp_path / "lake/silver/shop/orders"
    run = CliRunner().invoke
    assert [*portability_findings(str(tmp_path / "lake"), shop, shop.tables[0])] == []
    write(path, pa.table({"id": [1]}))
    assert json.loads(run(app, ["validate", "-o", "json"]).stdout)["not_portable"] == []
    live = table_of(str(path)).snapshot()
    info = {"commitInfo": {"timestamp": 1, "operation": "SET TBLPROPERTIES", "operationParameters": {}}}
    table_of(str(path)).put(live.version + 1, [info, *upgrade_protocol(live)])
    assert "deletionVectors" in (DeltaTable(str(path)).protocol().reader_features or ())
    done = run(app, ["validate"])
    assert done.exit_code == 0
    assert "shop/orders is declared compatibility: portable" in done.stderr
    assert "deletionVectors" in done.stderr
