"""A table taken into a running MariaDB connector, which does not know how the table looks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cdc_assets.capture.onboarding import onboarding_run
from cdc_assets.capture.onboarding.onboarding_state import Journal
from cdc_assets.registry.errors import RefusalError
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb
from cdc_assets_tests.support.onboarding.early_table import make_early, take_in_altered
from cdc_assets_tests.support.onboarding.ground import Ground, ground

SOURCE = "mdepot"


@pytest.fixture(scope="module")
def depot(mariadb: LiveMariaDb, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    make_early(mariadb.server, SOURCE)
    with ground(mariadb, tmp_path_factory.mktemp(SOURCE) / "sources", SOURCE) as own:
        yield own


@pytest.mark.all
def test_a_table_from_before_the_connector_altered_while_nobody_looked(depot: Ground) -> None:
    take_in_altered(depot)
    assert f"  - {{name: {SOURCE}.early}}\n" in depot.file.read_text()


def test_what_a_mariadb_cannot_take_is_said_at_once(depot: Ground) -> None:
    with pytest.raises(RefusalError, match=r"an offset ahead of what they have streamed.*take route incremental or temporary"):
        onboarding_run.begin(SOURCE, [f"{SOURCE}.early"], "blocking")
    with pytest.raises(RefusalError, match="cdc onboard without --watch"):
        onboarding_run.begin(SOURCE, [f"{SOURCE}.early"], "incremental", watched=True)
    assert Journal.of(SOURCE).running is None
