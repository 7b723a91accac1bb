"""What only a MySQL has, on its way into a running connector."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from cdc_assets.capture.onboarding import onboarding_run
from cdc_assets.capture.onboarding.onboarding_run import steps_of
from cdc_assets.clients.platform import Platform
from cdc_assets.registry.errors import RefusalError
from cdc_assets_tests.support.live.live_mysql import LiveMySql
from cdc_assets_tests.support.onboarding.early_table import make_early, take_in_altered
from cdc_assets_tests.support.onboarding.ground import Ground, ground

pytestmark = pytest.mark.all

SOURCE = "mysqldepot"
COLUMNS = {"id": "integer not null", "v": "text", "f": "real", "j": "jsonb"}


@pytest.fixture(scope="module")
def depot(mysql: LiveMySql, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    make_early(mysql.server, SOURCE)
    with ground(mysql, tmp_path_factory.mktemp(SOURCE) / "sources", SOURCE) as own:
        yield own


def test_a_table_from_before_the_connector_altered_while_nobody_looked(depot: Ground) -> None:
    take_in_altered(depot)


def test_floats_and_json_that_the_log_writes_otherwise_are_not_older_rows(depot: Ground) -> None:
    """Changed once the connector has the table, and read by the snapshot behind that."""
    with depot.live.connection() as session:
        session.execute("CREATE TABLE forms (id int PRIMARY KEY, v varchar(100), f float, j json)")
        session.execute("INSERT INTO forms VALUES (1, 'a', 1, '{}'), (2, 'b', 2, '{}')")
    depot.declare("forms", COLUMNS)
    onboarding_run.begin(SOURCE, [f"{SOURCE}.forms"], "incremental")
    for step in steps_of("incremental"):
        if step.name == "snapshot":
            with depot.live.connection() as session:
                session.execute("""UPDATE forms SET f = 1.23456789, j = '{"b": [1, 2.50], "a": null}', v = 'changed'""")
        found = onboarding_run.run_step(Platform(), SOURCE, step.name, lambda _: None)
        if step.name == "verify":
            assert (found["read_again"], found["rows"][f"{SOURCE}.forms"]) == (0, {"source": 2, "topic": 2})
    onboarding_run.finish(SOURCE)
    records = [r for r in depot.live.delivered()[f"{SOURCE}.{SOURCE}.forms"][0] if r.value is not None]
    events = [json.loads(record.value or "") for record in records]
    logged, read = (next(e["after"] for e in events if e["op"] == op and e["after"]["id"] == 1) for op in "ur")
    assert json.loads(logged["j"]) == json.loads(read["j"])
    assert logged["j"] != read["j"]
    assert logged["f"] != read["f"]


def test_what_it_needs_is_said_before_anything_changes(depot: Ground) -> None:
    server = depot.live.server
    server.execute("REVOKE XA_RECOVER_ADMIN ON *.* FROM cdc")
    try:
        onboarding_run.begin(SOURCE, [f"{SOURCE}.nowhere"], "incremental")
        with pytest.raises(RefusalError) as told:
            onboarding_run.go_on(Platform(), SOURCE, lambda _: None)
    finally:
        server.execute("GRANT XA_RECOVER_ADMIN ON *.* TO cdc")
        onboarding_run.roll_back(Platform(), SOURCE, lambda _: None)
    for finding in ("there is no table", "GRANT XA_RECOVER_ADMIN ON *.* TO 'cdc'"):
        assert finding in str(told.value)
