"""Signals with conditions on keys' values, as `--heal` sends them to MySQL, answered by a real Debezium: MariaDB's connector."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from cdc_assets.clients.databases.mariadb import MariaDbSignals
from cdc_assets.clients.databases.row_pages import SqlReader
from cdc_assets.proof import healing
from cdc_assets.registry import names
from cdc_assets.registry.databases import MariaDb
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb
from spark.specs import Column
from spark.values.sql_dialects import MySqlDialect

pytestmark = pytest.mark.all

KEY = (Column("code", "text", False), Column("line", "integer", False))
ODD = ["c'1", 'c"1', "c\\1", "c\\'; --", "ü€", "code %s"]


@pytest.mark.stack
def test_every_key_that_was_asked_for_is_read_again_and_no_other(mariadb: LiveMariaDb) -> None:
    own, server = mariadb.renamed("mariasig"), mariadb.server
    rows = [(code, line) for code in [*ODD, *[f"filler {i}" for i in range(40)]] for line in (1, 2)]
    table = "CREATE TABLE msig.t (code varchar(40), line int, v int, PRIMARY KEY (code, line)) CHARACTER SET utf8mb4"
    signals = names.signal_table(own.source(["msig.t"]))
    server.execute(
        "CREATE DATABASE msig",
        table,
        "CREATE DATABASE IF NOT EXISTS cdc_assets",
        f"CREATE TABLE {signals.schema}.{signals.table} (id varchar(42) PRIMARY KEY, type varchar(32), data varchar(2048))",
        f"GRANT SELECT, INSERT, DELETE ON {signals.schema}.{signals.table} TO cdc",
    )
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO msig.t VALUES (%s, %s, 0)", rows)
    own.capture(["msig.t"])
    before = len(records(own))
    wanted = [row for row in rows if row[1] == 2]
    reader = SqlReader(type("Server", (), {"dialect": MySqlDialect()})())
    sent = list(healing.signals(reader, healing.SignalledTable("msig.t", r"msig\.t"), KEY, wanted))
    assert len(sent) > 1
    source = own.source(["msig.t"])
    assert isinstance(source.database, MariaDb)
    with own.settings():
        for number, data in enumerate(sent):
            MariaDbSignals(source.database).send_signal(signals, f"heal-test-{number}", "execute-snapshot", data)
    until = time.monotonic() + 400
    while len(found := records(own)[before:]) < len(wanted):
        assert time.monotonic() < until, f"{len(found)} of {len(wanted)}"
        time.sleep(0.5)
    assert sorted((e["after"]["code"], e["after"]["line"]) for e in found) == sorted(wanted)
    assert {(e["op"], e["source"]["snapshot"]) for e in found} == {("r", "incremental")}


def records(own: LiveMariaDb) -> list[dict[str, Any]]:
    parts = own.delivered().get(f"{own.name}.msig.t", {})
    return [json.loads(r.value) for read in parts.values() for r in read if r.value]
