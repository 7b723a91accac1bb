"""A connector that runs and emits nothing of a MariaDB's or a MySQL's table turns red, by the binlog itself; nothing else
does.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cdc_assets.capture.connectors.declared_connectors import capture_config
from cdc_assets.proof.kind_proof import proof_of
from cdc_assets.registry import names
from cdc_assets_tests.support.live.checked_flow import Checked
from cdc_assets_tests.support.live.live_binlog import LiveBinlog
from cdc_assets_tests.support.live.live_mysql import PLAIN

pytestmark = pytest.mark.all

COLUMNS = {"id": "integer not null", "v": "integer"}


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def server(request: pytest.FixtureRequest) -> LiveBinlog:
    found: LiveBinlog = request.getfixturevalue(request.param)
    return found.renamed(f"{request.param}flow")


@pytest.mark.stack
def test_a_silent_table_is_found_and_no_other(server: LiveBinlog) -> None:
    own, execute, name = server, server.server.execute, server.name
    tables = ("mflow.a", "mflow.b")
    execute("CREATE DATABASE mflow", *[f"CREATE TABLE {t} (id int PRIMARY KEY, v int)" for t in tables])
    own.capture(declared(own, tables))
    source = own.source(declared(own, tables))
    witness = proof_of(source).witness
    assert witness is not None
    checked = Checked(own, source, witness(source.database))
    assert checked.silent() == {}
    execute("INSERT INTO mflow.a VALUES (1, 1)", "INSERT INTO mflow.b VALUES (1, 1)")
    assert checked.silent() == {}
    with own.server.connect(autocommit=False) as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE mflow.b SET v = 2")
        connection.rollback()
    execute("UPDATE mflow.a SET v = 2", "UPDATE mflow.b SET v = 1")
    assert checked.silent() == {}
    # The connector's filter does not know the table for a while, in which it is changed.
    recaptured(own, tables[:1])
    execute("UPDATE mflow.b SET v = 3")
    assert "table.include.list" in checked.silent()["mflow.b"]
    own.delivered()
    recaptured(own, tables)
    execute("UPDATE mflow.a SET v = 4")
    found = checked.silent()
    assert set(found) == {"mflow.b"}
    assert f"1 row event in the binlog since the last check, and no event in topic {name}.mflow.b" in found["mflow.b"]
    execute("UPDATE mflow.b SET v = 5")
    assert checked.silent() == {}


def declared(own: LiveBinlog, tables: Sequence[str]) -> list[str | dict[str, object]]:
    """As the registry has them: MySQL's with their columns."""
    return [*tables] if "maria" in own.name else [{**PLAIN, "name": table, "columns": COLUMNS} for table in tables]


def recaptured(own: LiveBinlog, tables: Sequence[str]) -> None:
    """Another list for the connector, in force when this returns."""
    source = own.source(declared(own, tables))
    name = names.connector_name(source)
    own.connect.stop(name)
    with own.settings():
        own.connect.put_config(name, capture_config(source))
    own.connect.resume(name)
    own.connect.wait_running(name)
