"""Records that were redriven leave a quarantine once that is long ago; open and given up ones stay. Rows are read by delta-rs."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.clients.delta_log import silver_committed
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.defs.upkeep_assets import build_maintenance_asset
from cdc_assets.recovery.maintenance import tables_in_lake
from cdc_assets.registry import names
from cdc_assets.registry.errors import RegistryError
from cdc_assets.registry.loader import load_source
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.recovery.shop_logs import write
from cdc_assets_tests.support.declared import declare, declare_source
from spark.silver.quarantine_table import COLUMNS
from spark.table.commit_metadata import Folded, silver_metadata
from spark.table.topic_commits import CommittedTopic
from spark.table.write_lease import lend_to_task
from spark.upkeep.maintenance_spec import MaintenanceSpec
from spark.upkeep.table_maintenance import maintain, plan_table

SOURCE = """
source: shop
database: {kind: postgresql, host: db, dbname: shop, user: u, password: {secret: shop}}
tables: [{name: public.orders, quarantine: {keep: 30d}}]
"""
WITH_HISTORY = SOURCE.replace("public.orders,", "public.orders, history: scd2,")
NOW = datetime.now(timezone.utc)
OLD, YOUNG = NOW - timedelta(days=31), NOW - timedelta(days=29)
KINDS = {
    **dict.fromkeys(("key", "value"), pa.binary()),
    **dict.fromkeys(("partition", "epoch", "schema_id"), pa.int32()),
    **dict.fromkeys(("offset", "built_on"), pa.int64()),
    **dict.fromkeys(("timestamp", "first_seen", "redriven_at", "dropped_at"), pa.timestamp("us", "UTC")),
}
RECORDS: list[dict[str, Any]] = [
    {"offset": 0, "redriven_at": OLD},
    {"offset": 1},
    {"offset": 2, "dropped_at": OLD},
    {"offset": 3, "superseded_by": "0000.9"},
    {"offset": 4, "redriven_at": YOUNG},
    {"offset": 5, "redriven_at": OLD, "position": None},
    {"offset": 6, "redriven_at": OLD, "built_on": 1},
    {"offset": 7, "redriven_at": OLD},
]
"""Folded long ago: open, given up and superseded ones are not; nor is one that silver is still to fold (its version is 1)."""
STAY, ALL = [1, 2, 3, 4, 5, 6], list(range(8))


class Shop:
    """A table's silver and history as far as their logs are looked at, and its quarantine."""

    def __init__(self, folder: Path, source: Source) -> None:
        self.lake, self.source = str(folder / "lake"), source
        self.path = names.quarantine_path(self.lake, source, source.tables[0])
        self.silver = names.silver_path(self.lake, source, source.tables[0])
        for _ in range(2):
            self.fold(self.silver)
        self.put(RECORDS[:5])
        self.put(RECORDS[5:7])
        self.put(RECORDS[7:])

    def fold(self, path: str, *, settled: datetime | None = None) -> None:
        topics = {"t": CommittedTopic("orders", "id", 0, {0: 8}, records=8)}
        marked = int(settled.timestamp() * 1_000_000) if settled else 0
        write(Path(path), silver_metadata("one", Folded(0, topics, quarantined=8, settled=marked), {}))

    def fold_history(self, settled: datetime) -> None:
        self.fold(names.history_path(self.lake, self.source, self.source.tables[0]), settled=settled)

    def put(self, records: list[dict[str, Any]]) -> None:
        facts = {**dict.fromkeys(COLUMNS), "topic": "t", "partition": 0, "position": "0000.1", "value": b"x", "built_on": 0}
        schema = pa.schema([(name, KINDS.get(name, pa.string())) for name in COLUMNS])
        write_deltalake(self.path, pa.Table.from_pylist([{**facts, **each} for each in records], schema=schema), mode="append")

    def rows(self) -> dict[int, dict[str, Any]]:
        return {row["offset"]: row for row in DeltaTable(self.path).to_pyarrow_table().to_pylist()}

    @property
    def spec(self) -> MaintenanceSpec:
        return next(table.spec for table in tables_in_lake(self.lake, self.source) if table.name == "quarantine/shop/orders")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    return Shop(tmp_path, declare_source(tmp_path, monkeypatch, SOURCE, Source))


def test_what_was_redriven_long_ago_goes_as_the_dry_run_says(shop: Shop) -> None:
    before, folded = shop.rows(), silver_committed(shop.silver)
    told = CliRunner().invoke(app, ["maintain", "--dry-run", "quarantine/shop/orders", "-o", "json"])
    assert [(row["table"], row["rows_to_go"]) for row in json.loads(told.stdout)] == [("quarantine/shop/orders", 2)]
    assert sorted(shop.rows()) == ALL
    asset = build_maintenance_asset(shop.source)
    done = dg.materialize([asset], resources={"platform": PlatformResource()})
    (event,) = done.asset_materializations_for_node(asset.op.name)
    assert (event.metadata["cdc/quarantine_rows_removed"].value, event.metadata["cdc/rows_removed"].value) == (2, 2)
    plans: Any = event.metadata["cdc/plan"]
    rows = {record.data["table"]: record.data["rows"] for record in plans.records}
    assert rows == {"silver/shop/orders": 0, "quarantine/shop/orders": 2}
    # All that is left is as it was, bytes and marks.
    assert shop.rows() == {offset: before[offset] for offset in STAY}
    assert silver_committed(shop.silver) == folded
    version = DeltaTable(shop.path).version()
    assert (plan_table(shop.spec).rows, maintain(shop.spec).rows_removed) == (0, 0)
    assert DeltaTable(shop.path).version() == version
    # Silver has another version since: what was to be folded then is.
    shop.fold(shop.silver)
    assert maintain(shop.spec).rows_removed == 1
    assert sorted(shop.rows()) == [1, 2, 3, 4, 5]


def test_a_history_has_heeded_what_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It folds keys anew by the rows of their records here."""
    shop = Shop(tmp_path, declare_source(tmp_path, monkeypatch, WITH_HISTORY, Source))
    assert maintain(shop.spec).rows_removed == 0
    shop.fold_history(OLD - timedelta(microseconds=1))
    assert maintain(shop.spec).rows_removed == 0
    shop.fold_history(OLD)
    assert maintain(shop.spec).rows_removed == 2
    assert sorted(shop.rows()) == STAY


def test_without_a_word_all_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(tmp_path, declare_source(tmp_path, monkeypatch, SOURCE.replace("30d", "null"), Source))
    assert (plan_table(shop.spec).rows, maintain(shop.spec).rows_removed) == (0, 0)
    assert sorted(shop.rows()) == ALL


def test_whoever_folds_the_table_comes_first(shop: Shop) -> None:
    """He writes both tables in silver's turn, so maintenance asks for that one."""
    with lend_to_task(shop.silver):
        found = maintain(shop.spec)
    assert found.rows_removed == 0
    assert "is being written by somebody else" in found.given_up["rows"]
    assert sorted(shop.rows()) == ALL
    assert maintain(shop.spec).rows_removed == 2


def test_less_than_a_day_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RegistryError, match="keep: 1d at least"):
        load_source(declare(tmp_path, monkeypatch, SOURCE.replace("30d", "23h")))
