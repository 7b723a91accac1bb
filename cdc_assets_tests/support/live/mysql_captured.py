"""A real MySQL's tables with the product's own connector, as a registry declares them: compared, and read again by signals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cdc_assets.capture.connectors.apply_source import ensure_signal_table
from cdc_assets.registry import names
from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.live.live_mysql import LiveMySql

OURS = (
    "CREATE DATABASE IF NOT EXISTS ours",
    "CREATE TABLE IF NOT EXISTS ours.marker (id varchar(100) PRIMARY KEY)",
    "GRANT INSERT, DELETE ON ours.marker TO cdc",
    "GRANT CREATE, INSERT, DELETE ON cdc_assets.* TO cdc",
)
Declared = Mapping[str, object]


def captured(mysql: LiveMySql, name: str, sslmode: str = "preferred") -> LiveMySql:
    """A source whose signal table `cdc apply` has made."""
    reconciliation = {"marker": "ours.marker", "signals": f"cdc_assets.signal_{name}"}
    own = replace(mysql, name=name, sslmode=sslmode, reconciliation=reconciliation)
    own.server.execute(*OURS)
    with own.settings():
        assert ensure_signal_table(own.source(["any.table"])) == ""
    return own


def records(live: LiveMySql, table: Declared) -> list[Record]:
    """What has been delivered of a table, in order."""
    source = live.source([table])
    (partition,) = live.delivered()[names.topic(source, source.tables[0])].values()
    return partition
