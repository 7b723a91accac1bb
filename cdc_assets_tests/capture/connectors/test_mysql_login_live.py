"""Debezium's logins at a MySQL, by caching_sha2_password, when the server has forgotten the password that it had seen."""

from __future__ import annotations

import pytest

from cdc_assets.capture.connectors.declared_connectors import capture_config
from cdc_assets_tests.support.live.live_mysql import LiveMySql

pytestmark = pytest.mark.all

ASKING = "driver.allowPublicKeyRetrieval"


@pytest.mark.parametrize("mode", ["preferred", "required", "disabled"])
def test_the_config_of_every_sslmode_logs_in(mysql: LiveMySql, mode: str) -> None:
    source = mysql.source(["login.t"])
    source = source.model_copy(update={"database": source.database.model_copy(update={"sslmode": mode})})
    with mysql.settings():
        config = capture_config(source)
    mysql.server.execute("FLUSH PRIVILEGES")
    assert mysql.connect.validate(config) == {}
    if ASKING in config:
        mysql.server.execute("FLUSH PRIVILEGES")
        without = {key: value for key, value in config.items() if key != ASKING}
        assert mysql.connect.validate(without) != {}
        assert "Public Key Retrieval is not allowed" in mysql.parts["core-connect"].component.log.read_text()
