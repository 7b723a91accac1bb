"""`cdc adopt` on a MariaDB connector made by hand: no slot, a schema history of its own name, no mirror yet."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import yaml

from cdc_assets.stack.loopback import HOST
from cdc_assets_tests.support.handmade import Handmade
from cdc_assets_tests.support.live.cdc import Cdc
from cdc_assets_tests.support.live.clusters import until
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb
from cdc_assets_tests.support.servers.binlog_server import PASSWORD

pytestmark = pytest.mark.all

NAME, CONNECTOR = "depot_m", "legacy-mariadb"


def test_a_mariadb_connector_is_declared_as_it_runs(make_cdc: Callable[[str], Cdc], mariadb: LiveMariaDb) -> None:
    cdc, server = make_cdc(NAME), mariadb.server
    server.execute(
        f"CREATE DATABASE {NAME}",
        f"CREATE TABLE {NAME}.orders (id bigint unsigned PRIMARY KEY, note varchar(40), at datetime(6))",
        f"CREATE TABLE {NAME}.others (id int PRIMARY KEY)",
        f"INSERT INTO {NAME}.orders VALUES (1, 'one', NULL)",
    )
    secret = cdc.live.home.secrets / f"{NAME}_password"
    secret.write_text(PASSWORD)
    secret.chmod(0o600)
    config = {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "database.hostname": HOST,
        "database.port": str(server.port),
        "database.user": "cdc",
        "database.password": PASSWORD,
        "database.server.id": "184054",
        "topic.prefix": "legacy",
        "table.include.list": f"{NAME}.orders",
        "schema.history.internal.kafka.bootstrap.servers": cdc.live.bootstrap,
        "schema.history.internal.kafka.topic": "schemahistory.legacy",
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
    }
    file = cdc.folder / f"{NAME}.yaml"
    Handmade.post(cdc.live.connect.url, CONNECTOR, config)
    try:
        until(lambda: Handmade.is_running(cdc.live.connect.url, CONNECTOR))
        until(lambda: "legacy.depot_m.orders" in cdc.live.connect.topics(CONNECTOR))
        before = cdc.live.connect.config(CONNECTOR)
        found = cdc.json("adopt", CONNECTOR, "--source", NAME, "--yes")
        assert found["tables"] == [f"{NAME}.orders"]
        assert list(found["topics"]) == ["legacy.depot_m.orders"]
        assert found["mirror"] is None
        assert f"cdc apply {NAME} makes {NAME}-mirror" in " ".join(found["notes"])
        assert PASSWORD not in file.read_text() + str(found)
        capture = yaml.safe_load(file.read_text())["capture"]
        assert (capture["schema_history"], capture["server_id"]) == ("schemahistory.legacy", 184054)
        # As the plugin writes them where nothing is said.
        assert capture["values"]["unsigned"] == "long"
        summaries = {row["connector"]: row["summary"] for row in cdc.json("diff", NAME, code=1)}
        assert summaries == {CONNECTOR: "same", f"{NAME}-mirror": "create"}
        assert cdc.live.connect.config(CONNECTOR) == before
    finally:
        cdc.live.connect.delete(CONNECTOR)
        file.unlink(missing_ok=True)
