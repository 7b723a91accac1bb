"""Preflight's own commands on a MongoDB-compatible server (SecantusDB): each fault is planted, found, and mended as it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets.capture.preflight.mongodb_rules import ask_mongodb
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_declaration import UnaskedSource
from cdc_assets_tests.support.servers.binlog_server import PASSWORD
from cdc_assets_tests.support.servers.mongodb_server import REPLICA_SET, MongoDbServer, mongodb_server

pytestmark = pytest.mark.all

COLLECTIONS = ("plain", "imaged", "seen", "none")


def findings(server: MongoDbServer, images: str) -> dict[tuple[str, str], str]:
    login = {"user": "cdc", "password": {"secret": "mongo"}}
    database = {"kind": "mongodb", "hosts": server.hosts, "replica_set": REPLICA_SET, "images": images, **login}
    declared = {"source": "shop", "database": database, "tables": [{"name": f"shop.{name}"} for name in COLLECTIONS]}
    source = UnaskedSource.model_validate(declared)
    return {(f.check, f.subject): f.level for f in ask_mongodb(source, [TableId("shop", name) for name in COLLECTIONS], "cdc")}


def test_each_fault_is_found_and_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_SECRET_MONGO", PASSWORD)
    with mongodb_server(tmp_path) as server, server.client() as client:
        client.shop.create_collection("plain")
        client.shop.create_collection("imaged", changeStreamPreAndPostImages={"enabled": True})
        client.shop.create_collection("seen", viewOn="plain", pipeline=[])
        same = {
            ("replica_set", "server"): "ok",
            ("oplog", "server"): "warn",
            ("collection", "shop.seen"): "fail",
            ("collection", "shop.none"): "fail",
            ("collection", "shop.imaged"): "ok",
        }
        assert findings(server, "full") == {**same, ("collection", "shop.plain"): "ok"}
        assert findings(server, "with_pre_image") == {**same, ("pre_images", "shop.plain"): "fail"}
        client.shop.command("collMod", "plain", changeStreamPreAndPostImages={"enabled": True})
        assert findings(server, "with_pre_image") == {**same, ("collection", "shop.plain"): "ok"}
