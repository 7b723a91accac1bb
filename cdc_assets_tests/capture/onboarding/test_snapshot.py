"""`cdc snapshot` on a live PostgreSQL: a table dropped and made again, as docs/explanation/schema-changes.md says it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from cdc_assets.capture.connectors.debezium_signals import PART, read_notifications
from cdc_assets.capture.onboarding.onboarding_state import find_source
from cdc_assets.clients.databases.postgresql_capture import PostgresCapture
from cdc_assets.clients.platform import Platform
from cdc_assets_tests.support.live.clusters import until
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.onboarding.drive import cdc, ended
from cdc_assets_tests.support.onboarding.ground import Ground, ground

SOURCE = "twice"
TABLE = "twice_old"


@pytest.fixture(scope="module")
def twice(live: LiveSource, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with ground(live, tmp_path_factory.mktemp("twice") / "sources", SOURCE) as own:
        yield own


def published() -> bool:
    tables = PostgresCapture(find_source(SOURCE).database).publication_tables(f"cdc_{SOURCE}")
    return TABLE in {table.table for table in tables}


def sent_of(own: Ground) -> list[tuple[str, int, str]]:
    """What the topic has of the table, in order: operation, key and value."""
    records = own.live.delivered()[f"{SOURCE}.public.{TABLE}"][0]
    events = [json.loads(record.value or "") for record in records if record.value is not None]
    return [(event["op"], event["after"]["id"], event["after"]["v"]) for event in events]


@pytest.mark.all
def test_a_table_made_again_is_read_by_one_command(twice: Ground) -> None:
    assert len(sent_of(twice)) == 50
    with twice.live.connection() as connection:
        # DROP takes it out of the publication; another order of columns says nothing about the old ones.
        connection.execute(f"DROP TABLE {TABLE}")
        connection.execute(f"CREATE TABLE {TABLE} (v text, id int PRIMARY KEY)")
        connection.execute(f"INSERT INTO {TABLE} VALUES ('again', 2), ('new', 99)")
    config = twice.live.connect.config(f"{SOURCE}-capture")
    plan = ended(cdc("snapshot", SOURCE, f"public.{TABLE}", "--blocking", "--dry-run", "-o", "json"))
    assert [row["step"] for row in plan["plan"]] == ["preflight", "signal-table", "published", "writers", "snapshot"]
    assert not published()
    with twice.live.connection(autocommit=False) as early:
        early.execute(f"INSERT INTO {TABLE} VALUES ('by a transaction from before', 100)")
        process = cdc("snapshot", SOURCE, f"public.{TABLE}", "--blocking", "-o", "json")
        until(published)
        early.commit()
    assert ended(process)["steps"]["snapshot"]["rows_scanned"] == {f"public.{TABLE}": 3}
    with twice.live.connection() as connection:
        connection.execute(f"UPDATE {TABLE} SET v = 'streamed' WHERE id = 99")
    first = [("r", 2, "again"), ("r", 99, "new"), ("r", 100, "by a transaction from before")]
    assert sent_of(twice)[50:] == [*first, ("u", 99, "streamed")]
    # By chunks, while all goes on.
    assert ended(cdc("snapshot", SOURCE, TABLE, "-o", "json"))["steps"]["snapshot"]["rows_scanned"] == {f"public.{TABLE}": 3}
    assert [(op, key) for op, key, _ in sent_of(twice)[54:]] == [("r", 2), ("r", 99), ("r", 100)]
    assert twice.live.connect.config(f"{SOURCE}-capture") == config


@pytest.mark.all
def test_only_the_rows_of_a_condition_are_read_again(twice: Ground) -> None:
    with twice.live.connection() as connection:
        connection.execute(f"INSERT INTO {TABLE} SELECT 'it''s ' || i, i FROM generate_series(200, 209) i")
    before = len(sent_of(twice))
    where = "v LIKE 'it''s %' AND id % 5 = 0 OR id = 2 -- by hand"
    found = ended(cdc("snapshot", SOURCE, TABLE, "--where", where, "-o", "json"))
    assert (found["where"], found["steps"]["snapshot"]["rows_scanned"]) == (where, {f"public.{TABLE}": 3})
    assert [(op, key) for op, key, _ in sent_of(twice)[before:]] == [("r", 2), ("r", 200), ("r", 205)]
    said = read_notifications(Platform().core_kafka("core"), [find_source(SOURCE)])[SOURCE].said
    of_part = [each for each in said if each.table and each.id.startswith(PART)]
    # Nobody takes a part for the whole table.
    assert [(each.table, each.rows, each.is_table_again) for each in of_part] == [(f"public.{TABLE}", 3, False)]


@pytest.mark.all
@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("nothing = 1", 'column "nothing" does not exist'),
        ("id =", "syntax error"),
        ("true); DROP TABLE twice_old; SELECT (1", "cannot insert multiple commands into a prepared statement"),
        ("tags ? 'a'", "stands for a parameter in the connector's driver"),
    ],
)
def test_a_condition_is_asked_of_the_database_before(twice: Ground, where: str, told: str) -> None:
    process = cdc("snapshot", SOURCE, TABLE, "--where", where, "--dry-run")
    _, err = process.communicate(timeout=120)
    assert (process.returncode, told in err) == (1, True), err
    assert sent_of(twice)


@pytest.mark.all
def test_what_cannot_be_read_again_is_refused_with_the_way(twice: Ground) -> None:
    process = cdc("snapshot", SOURCE, "public.nowhere")
    _, err = process.communicate(timeout=120)
    assert (process.returncode, f"cdc onboard {SOURCE} public.nowhere" in " ".join(err.split())) == (2, True), err
    twice.live.connect.stop(f"{SOURCE}-capture")
    process = cdc("snapshot", SOURCE, TABLE, "--dry-run")
    _, err = process.communicate(timeout=120)
    again = f"cdc resume {SOURCE}-capture, then cdc snapshot {SOURCE} public.{TABLE}"
    told = f"connector {SOURCE}-capture is STOPPED, tasks none; {again}"
    assert (process.returncode, told in err) == (1, True), err
