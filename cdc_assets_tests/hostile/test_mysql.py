"""A hostile workload on MySQL: silver holds what MySQL holds, and reconcile says so (docs/how-to/testing.md)."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_assets_tests.hostile.binlog_facts import MYSQL
from cdc_assets_tests.hostile.binlog_world import BinlogWorld
from cdc_assets_tests.hostile.course import play_world
from cdc_assets_tests.hostile.seeds import play_seeds
from cdc_assets_tests.support.live.live_binlog import LiveBinlog
from cdc_assets_tests.support.live.live_mysql import LiveMySql
from cdc_assets_tests.support.live.mysql_captured import captured

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.all]


class MySqlWorld(BinlogWorld):
    """Its tables in MySQL, as its server is configured by default."""

    facts = MYSQL

    def named(self, live: LiveBinlog, name: str) -> LiveBinlog:
        assert isinstance(live, LiveMySql)
        # Prepared transactions are looked for by all that reads tables again.
        live.server.execute("GRANT XA_RECOVER_ADMIN ON *.* TO cdc")
        return captured(live, name)

    def settings(self) -> AbstractContextManager[None]:
        return nullcontext()


def test_silver_is_what_mysql_has(
    mysql: LiveMySql, remote: str, session: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    play_seeds(request, "MySQL", lambda seed: play_world(MySqlWorld(mysql, seed), remote, session, tmp_path / str(seed)))
