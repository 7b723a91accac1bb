"""What is declared while the stack runs reaches silver by the sensor: onboarded, by hand, as a new source; and leaves again.

Nothing here materializes an asset: only what Dagster itself has learned can carry a row.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from cdc_assets_tests.e2e.source_rows import silver_rows, source_rows
from cdc_assets_tests.e2e.webserver import Graphql
from cdc_assets_tests.support.lakehouse import Lakehouse
from cdc_assets_tests.support.stack_kafka import kafka_settings

pytestmark = pytest.mark.e2e

ROUTES = ("incremental", "temporary")
BY_COMMAND, BY_JOB = "route_temporary", "route_launchpad"
"""By the launchpad it is the other route."""
ONBOARDED = (BY_COMMAND, BY_JOB)
_LAYERS = {"bronze": "record_parity", "silver": "reconciled"}
CHECKED = [(f"{layer}/world/{layer}_{table}", check) for table in ONBOARDED for layer, check in _LAYERS.items()]
_COLUMNS = "(id bigint PRIMARY KEY, note text, price numeric(30,10), at timestamptz)"
_ROWS = (
    "SELECT n, 'note ' || n, n / 7.0, timestamptz '2026-01-01 00:00Z' + n * interval '1 second' FROM generate_series(1, 300) n"
)


def until(condition: Callable[[], bool], what: str, *, seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.3)


def news(lakehouse: Lakehouse) -> dict[str, list[str]]:
    """What `cdc status` says that Dagster does not have yet."""
    told = json.loads(lakehouse.cdc("status", "-o", "json", check=False).stdout)["registry"]
    assert told is not None, "the webserver did not answer"
    return dict(told)


def create(lakehouse: Lakehouse, table: str) -> None:
    with lakehouse.connect("world") as world:
        world.execute(f"CREATE TABLE {table} {_COLUMNS}")
        world.execute(f"INSERT INTO {table} {_ROWS}")


def is_equal(lakehouse: Lakehouse, source: str, table: str) -> bool:
    """Silver, read by delta-rs, has the source's rows, read by SQL."""
    from deltalake.exceptions import TableNotFoundError

    with lakehouse.connect("world") as world:
        columns, expected = source_rows(world, table)
    try:
        return silver_rows(lakehouse.silver(source, table), columns) == expected
    except TableNotFoundError:
        return False


@pytest.mark.parametrize("route", ROUTES)
def test_a_plan_for_a_table_that_does_not_exist_is_refused(lakehouse: Lakehouse, route: str) -> None:
    refused = lakehouse.cdc("onboard", "world", "public.nope", "--dry-run", "--route", route, check=False)
    assert refused.returncode == 1, refused.stdout
    assert "there is no table public.nope" in refused.stderr


def test_each_route_onboards_into_the_running_dagster(lakehouse: Lakehouse, graphql: Graphql) -> None:
    create(lakehouse, BY_COMMAND)
    asked = ("onboard", "world", f"public.{BY_COMMAND}", "--route", "temporary")
    planned = lakehouse.cdc(*asked, "--dry-run")
    assert "definitions" in planned.stdout
    done = json.loads(lakehouse.cdc(*asked, "-o", "json").stdout)
    assert f"silver/world/silver_{BY_COMMAND}" in graphql.assets()
    assert done["steps"]["definitions"]["verified"] is True
    onboard_by_launchpad(lakehouse, graphql, BY_JOB)
    with lakehouse.connect("world") as world:
        for table in ONBOARDED:
            world.execute(f"UPDATE {table} SET price = price + 0.0000000001 WHERE id % 50 = 0")
            world.execute(f"UPDATE {table} SET id = id + 1000 WHERE id = 7")
            world.execute(f"DELETE FROM {table} WHERE id % 100 = 3")
            world.execute(f"INSERT INTO {table} VALUES (-1, 'Añb''\"\\ 中', NULL, NULL)")
    lakehouse.cdc("wait", "world", "--timeout", "300")
    for table in ONBOARDED:
        assert is_equal(lakehouse, "world", table)
        assert graphql.sensor_that_made(f"silver/world/silver_{table}") == "offsets_world"
    graphql.execute_checks(CHECKED)
    assert {(asset, name): graphql.checks(asset).get(name) for asset, name in CHECKED} == dict.fromkeys(CHECKED, "SUCCEEDED")


@pytest.mark.browser
def test_what_was_onboarded_is_green_on_its_page(lakehouse: Lakehouse, page: Any) -> None:
    for asset, name in CHECKED:
        page.goto(f"{lakehouse.addresses['CDC_DAGSTER_URL']}/assets/{asset}?view=checks&checkDetail={name}")
        page.get_by_text("Succeeded").first.wait_for()
        assert name in page.content()


def onboard_by_launchpad(lakehouse: Lakehouse, graphql: Graphql, table: str) -> None:
    """As a person does who has the webserver and no shell: a job; its run says what Dagster has afterwards."""
    create(lakehouse, table)
    silver = f"silver/world/silver_{table}"
    assert silver not in graphql.assets()
    chosen = {"source": "world", "tables": [f"public.{table}"]}
    run = graphql.launch_job("onboard_incremental", {"ops": {"begin": {"config": chosen}}})
    assert graphql.end_of(run) == "SUCCESS"
    ours = [asset for asset in graphql.assets() if asset.split("/")[1] == "world"]
    told = graphql.outputs(run)["definitions"]
    assert silver in ours
    assert (told["cdc/verified"], told["cdc/assets"]) == (True, len(ours))
    assert {"reconciled", "quarantine_empty"} <= graphql.checks(silver).keys()
    assert graphql.sensor("offsets_world")[0] == "RUNNING"


def test_a_file_edited_by_hand_is_noticed_and_taken_in_and_a_broken_one_stops_nothing(
    lakehouse: Lakehouse, graphql: Graphql
) -> None:
    file = lakehouse.sources / "world.yaml"
    before = file.read_text()
    try:
        break_and_edit(lakehouse, graphql, file, before)
    finally:
        file.write_text(before)
        lakehouse.cdc("reload")


def break_and_edit(lakehouse: Lakehouse, graphql: Graphql, file: Path, before: str) -> None:
    file.write_text(before + "\nlabels: broken\n")
    line = len(before.splitlines()) + 2
    told = lakehouse.cdc("status", check=False)
    assert f"{file}:{line}: labels: unknown key" in told.stdout
    refused = lakehouse.cdc("reload", check=False)
    assert refused.returncode == 1
    assert f"{file}:{line}: labels: unknown key" in refused.stderr
    until(lambda: f"{file}:{line}" in graphql.sensor("offsets_world")[1], "the sensor does not tell of the broken file")
    with lakehouse.connect("world") as world:
        world.execute(f"INSERT INTO {BY_JOB} VALUES (-2, 'while the file is broken', 1, NULL)")
    until(lambda: is_equal(lakehouse, "world", BY_JOB), "a broken file has stopped the sensor's runs")

    edited = before.replace(f"public.{BY_JOB}", f"public.{BY_JOB}, description: by hand")
    assert edited != before
    file.write_text(edited)
    assert news(lakehouse)["changed"] == ["world"]
    assert "world changed: cdc reload" in lakehouse.cdc("wait", "world").stderr
    until(lambda: "cdc reload" in graphql.sensor("offsets_world")[1], "the sensor does not tell of the edited file")
    assert json.loads(lakehouse.cdc("reload", "--dry-run", "-o", "json").stdout)["changed"] == ["world"]
    lakehouse.cdc("reload")
    assert not any(news(lakehouse).values())
    until(lambda: "cdc reload" not in graphql.sensor("offsets_world")[1], "the sensor still tells of a file that was taken in")


@pytest.fixture(scope="module")
def annex(lakehouse: Lakehouse) -> str:
    """Another source of the same database, taken in by `cdc up`; what that said."""
    for table in ("annex_rows", "annex_part"):
        create(lakehouse, table)
    part = [{"column": "note", "none_of": ["note 7", "note 8", None]}]
    declared = yaml.safe_load((lakehouse.sources / "world.yaml").read_text())
    annex = {
        **{key: declared[key] for key in ("owners", "database")},
        "source": "annex",
        "backup": {"store": {"kind": "s3", "bucket": "cdc-backup-annex", "prefix": "lake"}},
        "tables": [{"name": "public.annex_rows"}, {"name": "public.annex_part", "where": part}],
    }
    (lakehouse.sources / "annex.yaml").write_text(yaml.safe_dump(annex))
    assert news(lakehouse)["new"] == ["annex"]
    up = lakehouse.cdc("up", timeout=1200)
    return up.stdout + up.stderr


@pytest.mark.all
def test_a_new_source_file_and_up(lakehouse: Lakehouse, graphql: Graphql, annex: str) -> None:
    assert "annex_rows" in annex
    assert "failed" not in annex
    assert is_equal(lakehouse, "annex", "annex_rows")
    assert graphql.sensor("offsets_annex")[0] == "RUNNING"
    assert graphql.sensor_that_made("silver/annex/silver_annex_rows") == "offsets_annex"


@pytest.mark.all
@pytest.mark.usefixtures("annex")
def test_a_part_of_the_rows_follows_its_values(lakehouse: Lakehouse) -> None:
    kept = "note NOT IN ('note 7', 'note 8')"
    with lakehouse.connect("world") as world:
        world.execute("UPDATE annex_part SET note = 'note 7' WHERE id % 10 = 0")
        world.execute("UPDATE annex_part SET note = NULL WHERE id = 3")
        world.execute("UPDATE annex_part SET note = 'in again' WHERE id = 8")
        world.execute("INSERT INTO annex_part VALUES (-1, 'note 8', NULL, NULL), (-2, 'new', NULL, NULL)")
        columns, expected = source_rows(world, "annex_part", kept)
    assert expected.total() == 300 - 30 - 2 + 1
    lakehouse.cdc("wait", "annex", "--timeout", "300")
    assert silver_rows(lakehouse.silver("annex", "annex_part"), columns) == expected
    (told,) = json.loads(lakehouse.cdc("reconcile", "annex.annex_part", "-o", "json").stdout)
    assert (told["verdict"], told["source_rows"], told["silver_rows"]) == ("equal", expected.total(), expected.total())


def test_what_is_offboarded_is_gone_from_dagster(lakehouse: Lakehouse, graphql: Graphql) -> None:
    unknown = lakehouse.cdc("offboard", "world", "public.nope", "--dry-run", check=False)
    assert (unknown.returncode, "has no table public.nope" in unknown.stderr) == (1, True)
    done = json.loads(lakehouse.cdc("offboard", "world", f"public.{BY_COMMAND}", "-o", "json").stdout)
    assert not [key for key in graphql.assets() if key.endswith(f"_{BY_COMMAND}")]
    assert done["steps"]["definitions"]["verified"] is True
    assert f"silver/world/silver_{BY_JOB}" in graphql.assets()


@pytest.mark.all
@pytest.mark.usefixtures("annex")
def test_a_poison_record_is_told_by_status(lakehouse: Lakehouse, graphql: Graphql) -> None:
    from confluent_kafka import Producer

    assert "quarantine_empty" not in lakehouse.cdc("status", check=False).stdout
    producer = Producer(kafka_settings(lakehouse.addresses, "lake"))
    producer.produce("core.annex.public.annex_rows", key=b'{"id": 5}', value=b"no JSON")
    assert producer.flush(30) == 0
    until(lambda: "annex_rows" in lakehouse.cdc("quarantine", "list", "-o", "json").stdout, "the record is not in quarantine")
    # As its schedule does within five minutes.
    graphql.execute_checks([("silver/annex/silver_annex_rows", "quarantine_empty")])
    told = lakehouse.cdc("status", check=False)
    assert told.returncode == 1
    assert "quarantine_empty" in told.stdout
    answer = json.loads(lakehouse.cdc("status", "-o", "json", check=False).stdout)
    (row,) = [row for row in answer["tables"] if row["table"] == "annex_rows"]
    assert "failed" in row["checks"]
    assert [each for each in answer["checks"] if "quarantine_empty" in str(each) and "annex_rows" in str(each)], answer["checks"]


@pytest.mark.all
@pytest.mark.usefixtures("annex")
def test_a_source_that_is_removed_is_gone_from_dagster_and_from_the_database(lakehouse: Lakehouse, graphql: Graphql) -> None:
    done = json.loads(lakehouse.cdc("remove", "annex", "--yes", "-o", "json").stdout)
    assert any("in Dagster" in text for text in done["gone"]), done
    assert not [key for key in graphql.assets() if "/annex" in key]
    assert "silver/world/silver_city" in graphql.assets()
    with lakehouse.connect("world") as world:
        slots = world.execute("SELECT slot_name FROM pg_replication_slots ORDER BY 1").fetchall()
        published = world.execute("SELECT pubname FROM pg_publication ORDER BY 1").fetchall()
    assert ("cdc_annex",) not in slots
    assert ("cdc_annex",) not in published
    assert ("cdc_world",) in slots
    assert not any(news(lakehouse).values())
