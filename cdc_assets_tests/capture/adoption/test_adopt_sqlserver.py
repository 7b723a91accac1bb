"""The whole of `cdc adopt` of a SQL Server connector, without a service: Connect's and Kafka's answers are written down, and the
catalogue answers the real statements from SQLite (support/catalogues.py). No SQL Server has been asked.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from cdc_assets.capture.adoption.adopted_source import Adoption, look_at_connector, write
from cdc_assets.capture.connectors.declared_connectors import capture_config
from cdc_assets.capture.connectors.mirrormaker2 import mirror_config
from cdc_assets.capture.connectors.setting_overrides import settle
from cdc_assets.cli.cdc_command import app
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.loader import load_source
from cdc_assets.registry.source_declaration import UnaskedSource
from cdc_assets_tests.capture.adoption.scripted_stack import MIRROR, Cluster, Stack
from cdc_assets_tests.support.catalogues import SQLSERVER, Catalogue

CAPTURE = {
    "name": "erp-debezium-sqlserver-connector",
    "connector.class": "io.debezium.connector.sqlserver.SqlServerConnector",
    "tasks.max": "1",
    "database.hostname": "erp.example.com",
    "database.port": "1433",
    "database.user": "debezium",
    "database.password": "hunter2",
    "database.names": "shop",
    "driver.encrypt": "false",
    "topic.prefix": "erp-prod",
    "table.include.list": "dbo.orders, dbo.lines",
    "schema.history.internal.kafka.topic": "erp.history",
    "schema.history.internal.kafka.bootstrap.servers": "core:9092",
    "value.converter.schemas.enable": "false",
}
# As the plugin tells them (3.6).
DEFAULTS = {
    "database.port": "1433",
    "decimal.handling.mode": "precise",
    "time.precision.mode": "adaptive",
    "binary.handling.mode": "bytes",
    "snapshot.mode": "initial",
    "snapshot.isolation.mode": "repeatable_read",
    "heartbeat.interval.ms": "0",
    "tombstones.on.delete": "true",
    "skipped.operations": "t",
}
SAID = "kind sqlserver is experimental: not run against a server"
TOPICS = ("erp-prod.shop.dbo.orders", "erp-prod.shop.dbo.lines")
MORE_TABLES = """
INSERT INTO sys.tables VALUES ('lines', 1, 13, 1), ('captured_columns', 2, 14, 0), ('systranschemas', 1, 15, 0);
INSERT INTO sys.schemas VALUES ('cdc', 2);
"""


@pytest.fixture(autouse=True)
def catalogue(monkeypatch: pytest.MonkeyPatch) -> Catalogue:
    for name, value in {
        "CDC_CORE_BOOTSTRAP": "core:9092",
        "CDC_LAKE_BOOTSTRAP": "lake:9092",
        "CDC_CONNECT_SECRETS": "/s",
        "CDC_SECRET_ERP_PASSWORD": "hunter2",
    }.items():
        monkeypatch.setenv(name, value)
    made, driver = Catalogue(SQLSERVER + MORE_TABLES), ModuleType("pytds")
    vars(driver).update(connect=made.connect, tds_base=SimpleNamespace(Error=sqlite3.Error))
    monkeypatch.setitem(sys.modules, "pytds", driver)
    return made


def stack(capture: Mapping[str, str]) -> Stack:
    return Stack(capture, MIRROR, Cluster(*TOPICS), Cluster(*(f"onprem.{name}" for name in TOPICS)), defaults=DEFAULTS)


def adopt(folder: Path, changed: Mapping[str, str | None] | None = None) -> tuple[Adoption, Mapping[str, str]]:
    """What is found of the connector with these settings (None: without), and its config."""
    config = {key: value for key, value in {**CAPTURE, **(changed or {})}.items() if value is not None}
    return look_at_connector(stack(config), config["name"], folder, source="erp"), config  # type: ignore[arg-type]


def written(found: Adoption) -> UnaskedSource:
    write(found)
    source = load_source(found.file)
    assert isinstance(source, UnaskedSource)
    return source


def test_what_is_written_renders_the_connector_and_the_mirror_to_the_letter(tmp_path: Path) -> None:
    found, config = adopt(tmp_path)
    source = written(found)
    assert (settle(capture_config(source), config), mirror_config(source)) == (config, MIRROR)
    assert list(found.topics) == sorted(TOPICS)
    assert [table.name for table in source.tables] == ["dbo.lines", "dbo.orders"]
    assert (source.capture.schema_history, source.capture.topic_prefix) == ("erp.history", "erp-prod")
    assert source.capture.values.model_dump(exclude_defaults=True) == {"decimal": "precise", "temporal": "adaptive"}
    assert "hunter2" not in found.file.read_text() + str(found.to_json()) + repr(found)
    # A table that is onboarded later comes behind theirs, as SQL Server's lists have names.
    more = source.model_copy(update={"tables": (*source.tables, type(source.tables[0])(name="dbo.later"))})
    assert capture_config(more)["table.include.list"] == r"dbo.orders, dbo.lines,dbo\.later"


def test_the_notes_tell_that_nobody_should_rely_on_it_and_what_the_catalogue_lacks(tmp_path: Path) -> None:
    notes = list(adopt(tmp_path, {"table.include.list": None})[0].notes)
    assert notes[0] == SAID
    (untracked,) = [note for note in notes if "not tracked" in note]
    assert "left out: dbo.other; EXEC sys.sp_cdc_enable_table" in untracked
    assert "dbo.lines has no primary key: declare its keys in the entry (docs/reference/registry.md)" in notes


def test_the_verb_says_that_the_kind_is_experimental(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_SOURCES", str(tmp_path))
    monkeypatch.setattr("cdc_assets.cli.verb_frame.Platform", lambda: stack(CAPTURE))
    arguments = ["adopt", CAPTURE["name"], "--source", "erp", "--dry-run"]
    told = CliRunner().invoke(app, arguments).output
    assert f"note: {SAID}" in told
    assert "database     name: shop, tables tracked: 2" in told
    assert SAID in json.loads(CliRunner().invoke(app, [*arguments, "-o", "json"]).stdout)["notes"]


@pytest.mark.parametrize(
    ("changed", "block"),
    [
        ({"driver.encrypt": None}, {}),
        ({"database.encrypt": "true", "driver.encrypt": "false"}, {"encrypt": False}),
        ({"driver.encrypt": None, "database.trustServerCertificate": "true"}, {"trust_server_certificate": True}),
        ({"driver.encrypt": None, "driver.applicationIntent": "ReadOnly"}, {"read_only_replica": True}),
        ({"driver.encrypt": None, "database.instance": "two", "database.port": None}, {"instance": "two"}),
        ({"driver.encrypt": None, "database.instance": "two", "database.port": "7"}, {"port": 7}),
        ({"driver.encrypt": None, "snapshot.isolation.mode": "snapshot"}, {"snapshot_isolation": "snapshot"}),
        ({"driver.encrypt": None, "snapshot.isolation.mode": "read_uncommitted"}, {"snapshot_isolation": "read_committed"}),
    ],
)
def test_its_address_is_declared_as_the_driver_takes_it(
    tmp_path: Path, changed: dict[str, str | None], block: dict[str, Any]
) -> None:
    found, config = adopt(tmp_path, changed)
    source = written(found)
    assert settle(capture_config(source), config) == config
    assert "database.port" not in source.capture.settings
    told = source.database.model_dump(exclude={"kind", "host", "dbname", "user", "password"}, exclude_defaults=True)
    assert {"snapshot_isolation": "snapshot", **told} == {"snapshot_isolation": "repeatable_read", **block}


def test_signals_are_declared_where_this_kind_declares_them(tmp_path: Path) -> None:
    signals = {"signal.data.collection": "shop.dbo.marker", "table.include.list": r"dbo\.(orders|marker)"}
    found, config = adopt(tmp_path, signals)
    source = written(found)
    assert (source.reconciliation.signals, [table.name for table in source.tables]) == ("dbo.marker", ["dbo.orders"])
    assert settle(capture_config(source), config) == config


def test_topics_are_named_by_the_database_as_the_server_spells_it(tmp_path: Path) -> None:
    found, config = adopt(tmp_path, {"database.names": "SHOP"})
    source = written(found)
    assert (list(found.topics), source.capture.settings["database.names"]) == (sorted(TOPICS), "SHOP")
    assert settle(capture_config(source), config) == config


@pytest.mark.parametrize(
    ("changed", "script", "told"),
    [
        ({"database.names": "shop, crm"}, "", r"names 2 databases \(shop, crm\), and a source is exactly one"),
        ({"database.names": None}, "", "names 0 databases .database.names is not set"),
        ({"signal.data.collection": "dbo.marker"}, "", r"is no table of shop.*\(shop.schema.table\): change it there"),
        ({}, "UPDATE sys.databases SET is_cdc_enabled = 0", "database shop at erp.example.com:1433 has no change data capture"),
        ({}, "UPDATE sys.tables SET is_tracked_by_cdc = 0", "database shop at erp.example.com:1433 tracks no table in the lists"),
    ],
)
def test_what_cannot_be_taken_over_is_said(
    tmp_path: Path, catalogue: Catalogue, changed: dict[str, str | None], script: str, told: str
) -> None:
    catalogue.database.executescript(script)
    with pytest.raises(RefusalError, match=told):
        adopt(tmp_path, changed)
    assert not list(tmp_path.iterdir())
