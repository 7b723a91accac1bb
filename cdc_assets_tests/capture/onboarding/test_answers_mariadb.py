"""What onboarding asks and says of a MariaDB, without a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets.capture.connectors.declared_connectors import capture_config
from cdc_assets.capture.connectors.temporary_connectors import definitions_config, temporary_config
from cdc_assets.capture.onboarding import onboarding_run
from cdc_assets.capture.onboarding.binlog_onboarding import MariaDbKind
from cdc_assets.capture.onboarding.onboarding_state import find_source
from cdc_assets.clients.databases.binlog import BinlogPosition
from cdc_assets.clients.databases.binlog_capture import _names
from cdc_assets.registry import names
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_declaration import Source
from cdc_assets.registry.table_declaration import Table
from cdc_assets_tests.support.declared import declare_source

TEXT = """
source: shop
database: {kind: mariadb, host: db, user: cdc, password: {secret: shop}}
tables: [{name: shop.orders}]
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    monkeypatch.setenv("CDC_CORE_BOOTSTRAP", "core:9092")
    return declare_source(tmp_path, monkeypatch, TEXT)


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("ALTER TABLE orders ADD COLUMN n int", True),
        ("/* by ORM */ alter table `shop`.`Orders` drop column n", True),
        ("RENAME TABLE shop.shadow TO shop.orders", True),
        ("DROP DATABASE shop", True),
        ("ALTER TABLE orders_old ADD COLUMN n int", False),
        ("ALTER TABLE shop.lines ADD COLUMN n int", False),
        ("FLUSH TABLES `cdc_assets`.`orders`", False),
        ("BEGIN", False),
    ],
)
def test_statements_that_name_a_table(statement: str, named: bool) -> None:
    assert _names(statement, TableId("shop", "orders")) == named


def test_the_connector_beside_captures_the_new_tables_alone_and_keeps_to_itself(shop: Source) -> None:
    running, beside = capture_config(shop), temporary_config(shop, [Table(name="shop.lines")])
    for key in ("name", "database.server.id", "schema.history.internal.kafka.topic"):
        assert beside[key] != running[key]
    assert beside["topic.prefix"] == running["topic.prefix"]
    assert beside["table.include.list"] == r"(?-i:shop\.lines)"
    assert beside["database.include.list"] == "(?-i:shop)"
    assert beside["notification.sink.topic.name"] == running["notification.sink.topic.name"] == "shop.notifications"
    only = definitions_config(shop, [Table(name="shop.lines")])
    assert only["schema.history.internal.kafka.topic"] == names.temporary_schema_history_topic(shop)
    assert not [key for config in (beside, only) for key in config if key.startswith(("signal.", "heartbeat."))]
    assert not [key for key in only if key.startswith("notification.")]


def test_what_it_cannot_take_is_refused_before_anything_is_begun(shop: Source) -> None:
    assert find_source("shop", "temporary") == shop
    with pytest.raises(RefusalError, match="take route incremental or temporary"):
        onboarding_run.plan_steps("shop", ["shop.lines"], "blocking")
    with pytest.raises(RefusalError, match="without --watch"):
        onboarding_run.begin("shop", ["shop.lines"], "incremental", watched=True)


def test_a_count_sees_what_lies_before_its_place() -> None:
    at, kind = BinlogPosition.of("binlog.000010", 400), MariaDbKind()
    assert kind.sees(at, {"file": "binlog.000010", "pos": 399})
    assert kind.sees(at, {"file": "binlog.000009", "pos": 9000})
    assert not kind.sees(at, {"file": "binlog.000010", "pos": 400})
    assert not kind.sees(at, {"file": "binlog.1000000", "pos": 4})
