"""A table taken into a running MariaDB connector, which does not know how the table looks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cdc_assets.errors import OnboardingError
from cdc_assets.onboarding import run
from cdc_assets.onboarding.state import Journal
from cdc_assets_tests.live_mariadb import LiveMariaDb
from cdc_assets_tests.onboarding.binlog_events import held, last_values, nothing_is_left
from cdc_assets_tests.onboarding.drive import cdc, ended, kill_at
from cdc_assets_tests.onboarding.ground import Ground, Writers, ground

SOURCE = "mdepot"


@pytest.fixture(scope="module")
def depot(mariadb: LiveMariaDb, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    mariadb.server.execute(f"CREATE DATABASE {SOURCE}")
    # Long before the connector.
    mariadb.server.execute(f"CREATE TABLE {SOURCE}.early (id int PRIMARY KEY, v varchar(20))")
    with ground(mariadb, tmp_path_factory.mktemp(SOURCE) / "sources", SOURCE) as own:
        yield own


def test_a_table_from_before_the_connector_altered_while_nobody_looked(depot: Ground) -> None:
    """Killed in the middle and resumed, while others write to it."""
    with depot.live.connection() as session:
        session.execute("ALTER TABLE early ADD COLUMN n int FIRST, MODIFY v varchar(100)")
        session.execute("INSERT INTO early SELECT seq, seq * 2, CONCAT('first ', seq) FROM seq_1_to_2000")
    table = f"{SOURCE}.early"
    with Writers(depot.live, ["early", f"{SOURCE}_old"], 4000) as writers:
        assert kill_at(cdc("onboard", SOURCE, table, "-o", "json"), SOURCE, "snapshot", after=0.2)
        outcome = ended(cdc("onboard", SOURCE, "--resume", "-o", "json"))
    assert writers.transactions > 50
    counted = outcome["steps"]["verify"]["rows"][table]
    assert counted["source"] == counted["topic"] > 1000
    assert last_values(depot, "early") == held(depot, "early")
    assert last_values(depot, f"{SOURCE}_old") == held(depot, f"{SOURCE}_old")
    assert f"  - {{name: {table}}}\n" in depot.file.read_text()
    nothing_is_left(depot)


def test_what_a_mariadb_cannot_take_is_said_at_once(depot: Ground) -> None:
    with pytest.raises(OnboardingError, match=r"an offset ahead of what they have streamed.*take route incremental or temporary"):
        run.begin(SOURCE, [f"{SOURCE}.early"], "blocking")
    with pytest.raises(OnboardingError, match="cdc onboard without --watch"):
        run.begin(SOURCE, [f"{SOURCE}.early"], "incremental", watched=True)
    assert Journal.of(SOURCE).running is None
