"""A table from before its connector, altered while nobody looked, taken in while others write: MariaDB's and MySQL's alike."""

from __future__ import annotations

from cdc_assets_tests.support.onboarding.binlog_events import held, last_values, nothing_is_left
from cdc_assets_tests.support.onboarding.drive import cdc, ended, kill_at
from cdc_assets_tests.support.onboarding.ground import Ground, Writers
from cdc_assets_tests.support.servers.binlog_server import BinlogServer


def make_early(server: BinlogServer, source: str) -> None:
    """Long before the connector."""
    server.execute(f"CREATE DATABASE {source}", f"CREATE TABLE {source}.early (id int PRIMARY KEY, v varchar(20))")


def take_in_altered(own: Ground) -> None:
    """Killed in the middle and resumed."""
    with own.live.connection() as session:
        session.execute("ALTER TABLE early ADD COLUMN n int FIRST, MODIFY v varchar(100)")
    own.create("early", 2000)
    source, table, old = own.name, f"{own.name}.early", f"{own.name}_old"
    with Writers(own.live, ["early", old], 4000) as writers:
        assert kill_at(cdc("onboard", source, table, "-o", "json"), source, "snapshot", after=0.2)
        outcome = ended(cdc("onboard", source, "--resume", "-o", "json"))
    assert writers.transactions > 50
    counted = outcome["steps"]["verify"]["rows"][table]
    assert counted["source"] == counted["topic"] > 1000
    assert last_values(own, "early") == held(own, "early")
    assert last_values(own, old) == held(own, old)
    nothing_is_left(own)
