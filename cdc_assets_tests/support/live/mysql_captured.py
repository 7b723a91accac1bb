"""A real MySQL's tables with the product's own connector on the Connect worker of `live_source`, as a registry declares them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cdc_assets import names
from cdc_assets.stack.java import java_modules
from cdc_assets_tests.programs.wanted import ProgramMissingError
from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.live.live_mysql import LiveMySql
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.servers.mysql_server import MySqlServer, mysql_server

OURS = (
    "CREATE DATABASE ours",
    "CREATE TABLE ours.marker (id varchar(100) PRIMARY KEY)",
    "CREATE TABLE ours.signals (id varchar(42) PRIMARY KEY, type varchar(32), data varchar(2048))",
    "GRANT INSERT, DELETE ON ours.marker TO cdc",
    "GRANT INSERT ON ours.signals TO cdc",
)
Declared = Mapping[str, object]


def captured(server: MySqlServer, live: LiveSource, name: str, sslmode: str = "preferred") -> LiveMySql:
    """A source that is compared, and healed by signals."""
    return LiveMySql(server, live, name, sslmode, {"marker": "ours.marker", "signals": "ours.signals"})


def records(live: LiveMySql, table: Declared) -> list[Record]:
    """What has been delivered of a table, in order."""
    source = live.source([table])
    (partition,) = live.delivered()[names.topic(source, source.tables[0])].values()
    return partition


@contextmanager
def server_with_our_tables(folder: Path) -> Iterator[MySqlServer]:
    """With GTIDs, and the tables of ours that a comparison writes to."""
    if "jdk.charsets" not in java_modules():
        # Without its character sets Connector/J asks MySQL for eucjpms.
        raise ProgramMissingError("without a whole JDK: set JAVA_HOME to one that has the module jdk.charsets")
    with mysql_server(folder, "--gtid-mode=ON", "--enforce-gtid-consistency=ON") as found:
        found.execute(*OURS)
        yield found
