"""A MariaDB source as it is declared, rendered and shown, without a server."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cdc_assets.capture.connectors.debezium_settings import server_id
from cdc_assets.capture.connectors.declared_connectors import capture_config
from cdc_assets.clients.databases.binlog_capture import _create_statements
from cdc_assets.registry.errors import RegistryError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_declaration import Source
from cdc_assets.stack import component_plan
from cdc_assets_tests.support.declared_mariadb import GOOD, loaded
from spark.table.identifiers import quote
from spark.values.mariadb_types import parse

CANARY = "canary-8c1f"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    monkeypatch.setenv("CDC_CORE_BOOTSTRAP", "core:9092")
    monkeypatch.setenv("CDC_CONNECT_SECRETS", "/secrets")
    monkeypatch.setenv("CDC_SECRET_SHOP", CANARY)
    return loaded(tmp_path, GOOD)


def test_the_connector_reads_exactly_the_declared_tables(source: Source) -> None:
    config = capture_config(source)
    patterns = config["table.include.list"].split(",")
    assert [bool(re.fullmatch(p, "shop.orders")) for p in patterns] == [True, False, False]
    assert [bool(re.fullmatch(p, "shop.order,lines")) for p in patterns] == [False, True, False]
    assert [bool(re.fullmatch(p, config["signal.data.collection"])) for p in patterns] == [False, False, True]
    assert not any(re.fullmatch(pattern, "shop.Orders", re.IGNORECASE) for pattern in patterns)
    databases = config["database.include.list"].split(",")
    assert [bool(re.fullmatch(p, d, re.IGNORECASE)) for p in databases for d in ("cdc_assets", "shop", "Shop")] == [
        *(True, False, False, False, True, False)
    ]
    assert config["schema.history.internal.kafka.topic"] == "shop.schema-history"
    assert CANARY not in json.dumps(config)
    assert config["database.password"] == "${dir:/secrets:shop}"


def test_values_come_in_the_forms_that_lose_the_least(source: Source, tmp_path: Path) -> None:
    assert capture_config(source)["time.precision.mode"] == "adaptive_time_microseconds"
    other = loaded(tmp_path, GOOD + "capture: {values: {temporal: connect, unsigned: long}}\n")
    config = capture_config(other)
    assert (config["time.precision.mode"], config["bigint.unsigned.handling.mode"]) == ("connect", "long")


def test_the_server_id_is_the_same_at_every_start_and_may_be_chosen(source: Source, tmp_path: Path) -> None:
    assert server_id(source) == server_id(source.model_copy())
    assert 1_000_000_000 <= server_id(source) < 2**32
    assert server_id(loaded(tmp_path, GOOD + "capture: {server_id: 77}\n")) == 77


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("capture: {slot: s}", "capture.slot: a source of kind mariadb has no such setting"),
        ("capture: {values: {temporal: adaptive}}", "Debezium's MariaDB connector has no mode adaptive"),
    ],
)
def test_settings_of_other_kinds_are_refused(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(RegistryError, match=said):
        loaded(tmp_path, f"{GOOD}{line}\n")


def test_its_jars_are_fetched_only_when_one_is_declared(source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CDC_SOURCES", raising=False)
    assert "debezium-mariadb" not in component_plan.jar_sets()
    monkeypatch.setenv("CDC_SOURCES", str(tmp_path))
    assert "debezium-mariadb" in component_plan.jar_sets()


@pytest.mark.parametrize(
    ("text", "name", "args"),
    [
        ("bigint(20) unsigned zerofill", "bigint unsigned", (20,)),
        ("decimal(65,30)", "decimal", (65, 30)),
        ("int(5) zerofill", "int unsigned", (5,)),
        ("enum('a)','it''s unsigned')", "enum", ()),
        ("datetime(6)", "datetime", (6,)),
        ("uuid", "uuid", ()),
    ],
)
def test_column_types_are_taken_apart(text: str, name: str, args: tuple[int, ...]) -> None:
    found = parse(text)
    assert found is not None
    assert (found.name, found.args) == (name, args)


def test_a_name_with_a_backtick_stays_one_name() -> None:
    assert quote("a`b", "c") == "`a``b`.`c`"
    assert _create_statements(TableId("a`b", "c`"))[1].startswith("CREATE TABLE IF NOT EXISTS `a``b`.`c``` (id ")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ('shop."ends "', "MariaDB has no table or database whose name ends in white space"),
        ("shop.😀", "MariaDB has no table or database with a character beyond U\\+FFFF in its name"),
        (f"{'s' * 65}.orders", "MariaDB has no table or database with a name of more than 64 characters"),
        ("'shop.`all`'", "Debezium cannot read a table or database whose name begins or ends with a backtick"),
    ],
)
def test_a_name_that_cannot_be_there_is_refused_by_file_and_line(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(RegistryError, match=rf"shop.yaml:\d+: tables\.0\.name: {why}, got "):
        loaded(tmp_path, GOOD.replace("shop.orders", name))
