"""Several connectors' notifications in one read of the cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cdc_assets.capture.connectors.debezium_signals import INITIAL, KeptNotifications, read_notifications
from cdc_assets.chain.table_reload import whole_readings
from cdc_assets.proof.volumetry import declarations
from cdc_assets.registry.loader import load_sources
from cdc_assets_tests.support.declared import declare
from cdc_assets_tests.support.fakes import FakeKafka, FakeTopic

YAML = """\
source: {name}
database: {{kind: postgresql, host: h, dbname: d, user: u, password: {{secret: db_password}}}}
tables: [{{name: public.{name}}}]
"""


def said(*types: str) -> list[tuple[bytes | None, bytes | None] | None]:
    return [(None, json.dumps({"id": "1", "aggregate_type": INITIAL, "type": each}).encode()) for each in types]


def test_all_sources_in_one_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is told its own in order, and one whose topic nobody has made yet has none."""
    folder = declare(tmp_path, monkeypatch, YAML.format(name="shop")).parent
    for name in ("bank", "late"):
        (folder / f"{name}.yaml").write_text(YAML.format(name=name))
    core = FakeKafka(
        {
            "shop.notifications": FakeTopic("a", {0: said("SKIPPED"), 1: said("STARTED", "PAUSED")}),
            "bank.notifications": FakeTopic("b", {0: said("COMPLETED"), 1: []}, begins={1: 0}),
        }
    )
    found = read_notifications(core, load_sources(folder))  # type: ignore[arg-type]
    told = {name: [each.type for each in of.said] for name, of in found.items()}
    assert told == {"shop": ["STARTED", "SKIPPED"], "bank": ["COMPLETED"]}
    assert core.group_reads == 1
    core.topics["bank.notifications"] = FakeTopic("b", {0: [None]}, begins={0: 1})
    cut = read_notifications(core, load_sources(folder))["bank"]  # type: ignore[arg-type]
    assert (cut.said, cut.whole_since) == ((), None)


SQLSERVER = """\
source: shop
database: {kind: sqlserver, host: h, dbname: crm, user: u, password: {secret: db_password}}
tables: [{name: dbo.orders}]
"""


def test_a_table_is_called_as_the_registry_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQL Server's connector says its database too; MongoDB's says of no first snapshot how many rows it has read."""
    folder = declare(tmp_path, monkeypatch, SQLSERVER).parent

    def read(told: dict[str, str]) -> KeptNotifications:
        value = {"id": "1", "aggregate_type": INITIAL, "additional_data": {**told, "scanned_collection": "crm.dbo.orders"}}
        sent = [{**value, "type": each} for each in ("STARTED", "TABLE_SCAN_COMPLETED", "COMPLETED")]
        log: list[tuple[bytes | None, bytes | None] | None] = [(None, json.dumps(each).encode()) for each in sent]
        core = FakeKafka({"shop.notifications": FakeTopic("a", {0: log})})
        return read_notifications(core, load_sources(folder))["shop"]  # type: ignore[arg-type]

    told = read({"status": "SUCCEEDED", "total_rows_scanned": "7"})
    assert [each.table for each in told.said] == ["", "dbo.orders", ""]
    assert {table: of.rows for table, of in whole_readings(told).items()} == {"dbo.orders": 7}
    assert {table: of.rows for table, of in declarations(told).of_tables.items()} == {"dbo.orders": 7}
    silent = read({"status": "SUCCEEDED"})
    assert (whole_readings(silent), declarations(silent).of_tables) == ({}, {})
