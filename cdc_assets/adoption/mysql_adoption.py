"""A MySQL connector that is taken over: its address, and its tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cdc_assets.adoption.binlog_adoption import BinlogAdoption
from cdc_assets.adoption.running_connector import RunningConnector
from cdc_assets.kinds import expect
from cdc_assets.registry.models import CapturedSource
from cdc_assets.registry.mysql import MySql
from cdc_assets.resources.databases.mysql import MySqlDatabase

_SSL = ("disabled", "preferred", "required", "verify_ca", "verify_identity")


class MySqlAdoption(BinlogAdoption):
    """What `cdc adopt` reads of a MySQL source. Its tables declare no columns: the catalogue tells them."""

    KIND = "mysql"

    def database(self, running: RunningConnector, password: Mapping[str, Any]) -> dict[str, Any]:
        """Where the connector finds it, how it is encrypted, and whether its snapshots lock."""
        found = super().database(running, password)
        config = running.config
        ssl, locking, zone = (
            running.setting("database.ssl.mode"),
            running.setting("snapshot.locking.mode"),
            config.get("database.connectionTimeZone") or config.get("driver.connectionTimeZone"),
        )
        found |= {"sslmode": ssl} if ssl in _SSL and ssl != "preferred" else {}
        found |= {"snapshot_locking": locking} if locking in ("extended", "none") else {}
        return {**found, "time_zone": zone} if zone else found

    def server(self, source: CapturedSource) -> MySqlDatabase:
        """The source's MySQL, opened for questions."""
        return MySqlDatabase(expect(source.database, MySql))
