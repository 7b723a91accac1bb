"""A hostile workload on MariaDB: silver holds what MariaDB holds, and reconcile says so (docs/how-to/testing.md)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_assets_tests.hostile.binlog_facts import MARIADB
from cdc_assets_tests.hostile.binlog_world import BinlogWorld
from cdc_assets_tests.hostile.course import play_world
from cdc_assets_tests.hostile.seeds import play_seeds
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.stack]


class MariaDbWorld(BinlogWorld):
    """Its tables in MariaDB."""

    facts = MARIADB

    def create(self) -> None:
        super().create()
        table, columns = (
            f"cdc_assets.signal_{self.live.name}",
            "id varchar(100) PRIMARY KEY, type varchar(100) NOT NULL, data longtext",
        )
        self.live.server.execute(
            "CREATE DATABASE IF NOT EXISTS cdc_assets",
            f"CREATE TABLE {table} ({columns})",
            f"GRANT SELECT, INSERT, DELETE ON {table} TO 'cdc'@'%'",
        )

    @contextmanager
    def settings(self) -> Iterator[None]:
        """The server takes no zero dates, else tables with dates are refused."""
        server = self.live.server
        ((before,),) = server.query("SELECT @@global.sql_mode")
        self.configure()
        try:
            yield
        finally:
            server.execute(f"SET GLOBAL sql_mode = '{before}'")

    def configure(self) -> None:
        """It refuses zero dates."""
        self.live.server.execute("SET GLOBAL sql_mode = CONCAT(@@global.sql_mode, ',NO_ZERO_DATE,NO_ZERO_IN_DATE')")


@pytest.mark.all
def test_silver_is_what_mariadb_has(
    mariadb: LiveMariaDb, remote: str, session: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    play_seeds(request, "MariaDB", lambda seed: play_world(MariaDbWorld(mariadb, seed), remote, session, tmp_path / str(seed)))
