"""A connector that runs and emits nothing of a MariaDB's table turns red, by the binlog itself; nothing else does.

CDC_TEST_FLOW_MARIADB=1 python -m pytest cdc_assets_tests/spark/test_flow_mariadb.py
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cdc_assets import names
from cdc_assets.connectors.capture import capture_config
from cdc_assets.registry.mariadb import MariaDb
from cdc_assets.volumetry.mariadb_witness import MariaDbWitness
from cdc_assets_tests.live_mariadb import LiveMariaDb
from cdc_assets_tests.spark.test_flow_live import Checked


@pytest.mark.stack
def test_a_silent_table_of_mariadb_is_found_and_no_other(mariadb: LiveMariaDb) -> None:
    own, server = mariadb.renamed("mariaflow"), mariadb.server
    tables = ("mflow.a", "mflow.b")
    server.execute("CREATE DATABASE mflow", *[f"CREATE TABLE {t} (id int PRIMARY KEY, v int)" for t in tables])
    own.capture(tables)
    source = own.source(tables)
    assert isinstance(source.database, MariaDb)
    checked = Checked(own, source, MariaDbWitness(source.database))
    assert checked.silent() == {}
    server.execute("INSERT INTO mflow.a VALUES (1, 1)", "INSERT INTO mflow.b VALUES (1, 1)")
    assert checked.silent() == {}
    with server.connect(autocommit=False) as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE mflow.b SET v = 2")
        connection.rollback()
    server.execute("UPDATE mflow.a SET v = 2", "UPDATE mflow.b SET v = 1")
    assert checked.silent() == {}
    # The connector's filter does not know the table for a while, in which it is changed.
    recaptured(own, tables[:1])
    server.execute("UPDATE mflow.b SET v = 3")
    assert "table.include.list" in checked.silent()["mflow.b"]
    own.delivered()
    recaptured(own, tables)
    server.execute("UPDATE mflow.a SET v = 4")
    found = checked.silent()
    assert set(found) == {"mflow.b"}
    assert "1 row event(s) in the binlog since the last check, and no event in topic mariaflow.mflow.b" in found["mflow.b"]
    server.execute("UPDATE mflow.b SET v = 5")
    assert checked.silent() == {}


def recaptured(own: LiveMariaDb, tables: Sequence[str]) -> None:
    """Another list for the connector, in force when this returns."""
    name = names.connector_name(own.source(tables))
    own.connect.stop(name)
    with own.settings():
        own.connect.put_config(name, capture_config(own.source(tables)))
    own.connect.resume(name)
    own.connect.wait_running(name)
