"""What `cdc adopt` makes of a MySQL connector's config and of a real server: an entry whose own config is the running one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cdc_assets.capture.adoption.adopted_source import _first_document, _validate
from cdc_assets.capture.adoption.binlog_adoption import MySqlAdoption
from cdc_assets.capture.adoption.running_connector import RunningConnector, table_entries
from cdc_assets.capture.connectors.declared_connectors import capture_config
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.kinds import KINDS
from cdc_assets.registry.source_declaration import UnaskedSource
from cdc_assets_tests.support.servers.binlog_server import PASSWORD
from cdc_assets_tests.support.servers.mysql_server import mysql_server

pytestmark = pytest.mark.all


def test_the_entry_describes_the_running_connector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_SECRET_ERP_PASSWORD", PASSWORD)
    monkeypatch.setenv("CDC_CORE_BOOTSTRAP", "127.0.0.1:1")
    with mysql_server(tmp_path) as server:
        server.execute(
            "CREATE DATABASE shop",
            "CREATE TABLE shop.orders (id int PRIMARY KEY, v varchar(9))",
            "CREATE TABLE shop.lines (v int)",
            "CREATE TABLE shop.unlisted (id int PRIMARY KEY)",
        )
        place = {
            "host": "127.0.0.1",
            "port": server.port,
            "sslmode": "disabled",
            "time_zone": "+05:30",
            "snapshot_locking": "none",
        }
        theirs = UnaskedSource.model_validate(
            {
                "source": "erp",
                "database": {"kind": "mysql", **place, "user": "cdc", "password": {"secret": "erp_password"}},
                "capture": {"server_id": 4711, "signals": "ours.signals", "values": {"decimal": "precise"}},
                "tables": [{"name": "shop.orders"}, {"name": "shop.lines"}],
            }
        )
        config = capture_config(theirs)
        running = RunningConnector("cdc_erp", "http://c", KINDS["mysql"], config, {}, frozenset({"database.password"}), ())
        kind = MySqlAdoption()
        document = _first_document(replace(running, name=config["name"]), kind, "erp")
        assert document["database"] == theirs.model_dump(mode="json", exclude_none=True)["database"]
        found = kind.look(running, _validate({**document, "tables": [{"name": "adoption.nothing"}]}))
        assert sorted(found.tables) == [TableId("shop", "lines"), TableId("shop", "orders")]
        assert list(found.keyless) == [TableId("shop", "lines")]
        derived = {table: f"erp.{table}" for table in found.tables}
        document["tables"] = table_entries(running, found.tables, derived, derived)
        adopted = capture_config(_validate(document))
        lists = {"table.include.list", "database.include.list"}
        assert {k: v for k, v in adopted.items() if k not in lists} == {k: v for k, v in config.items() if k not in lists}
        assert {k: sorted(adopted[k].split(",")) for k in lists} == {k: sorted(config[k].split(",")) for k in lists}
        nothing = replace(running, config={**config, "table.include.list": "shop.gone"})
        with pytest.raises(RefusalError, match="has no table in the lists"):
            kind.look(nothing, _validate(document))
