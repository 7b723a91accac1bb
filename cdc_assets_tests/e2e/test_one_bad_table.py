"""28 tables with one that is bad, in each way: the 27 are fresh, and `up`, `wait`, `status` and the page name the one."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
import yaml

from cdc_assets_tests.e2e.source_rows import silver_rows, source_rows
from cdc_assets_tests.e2e.webserver import Graphql
from cdc_assets_tests.support.lakehouse import Lakehouse, until
from cdc_assets_tests.support.stack_kafka import kafka_settings

pytestmark = [pytest.mark.e2e, pytest.mark.all]

TABLES = tuple(f"fleet_{number:02}" for number in range(28))
NO_RIGHTS, POISON, FUTURE, LARGE = TABLES[:4]
AT_ONCE = 10.0
"""Seconds from the moment that something is known until it is told."""


def behind(lakehouse: Lakehouse, *, apart: str = "") -> list[str]:
    """The tables, but for one, of which silver is not as the source."""
    from deltalake.exceptions import TableNotFoundError

    found = []
    with lakehouse.connect("world") as world:
        for table in TABLES:
            if table == apart:
                continue
            columns, expected = source_rows(world, table)
            try:
                held = silver_rows(lakehouse.silver("fleet", table), columns)
            except TableNotFoundError:
                held = None
            if held != expected:
                found.append(table)
    return found


def change_all(lakehouse: Lakehouse) -> None:
    with lakehouse.connect("world") as world:
        for table in TABLES:
            world.execute(f"UPDATE {table} SET v = v || '.' WHERE id = 1")


@pytest.fixture(scope="module")
def up(lakehouse: Lakehouse) -> str:
    """What `cdc up` says of the new source, whose role may not read one of the tables."""
    with lakehouse.connect("world") as world:
        for table in TABLES:
            world.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, v text)")
            world.execute(f"INSERT INTO {table} SELECT n, 'row ' || n FROM generate_series(1, 3) n")
        world.execute(f"REVOKE SELECT ON {NO_RIGHTS} FROM world_cdc")
    declared = yaml.safe_load((lakehouse.sources / "world.yaml").read_text())
    tables = [{"name": f"public.{table}"} for table in TABLES]
    fleet = {"source": "fleet", "owners": declared["owners"], "database": declared["database"], "tables": tables}
    (lakehouse.sources / "fleet.yaml").write_text(yaml.safe_dump(fleet))
    done = lakehouse.cdc("up", timeout=1500, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_table_that_may_not_be_read_is_left_out(lakehouse: Lakehouse, graphql: Graphql, up: str) -> None:
    assert f"public.{NO_RIGHTS}" in up
    assert "role world_cdc may not read it, so there is no snapshot" in up
    with lakehouse.connect("world") as world:
        world.execute(f"GRANT SELECT ON {NO_RIGHTS} TO world_cdc")
        assert behind(lakehouse) == [NO_RIGHTS]
        world.execute(f"REVOKE SELECT ON {NO_RIGHTS} FROM world_cdc")
    told = lakehouse.cdc("status", check=False)
    assert (told.returncode, NO_RIGHTS in told.stdout) == (1, True), told.stdout
    assert graphql.checks("connector/fleet")["preflight"] == "FAILED"


@pytest.mark.usefixtures("up")
def test_it_is_taken_in_by_the_commands_that_were_told(lakehouse: Lakehouse) -> None:
    with lakehouse.connect("world") as world:
        world.execute(f"GRANT SELECT ON {NO_RIGHTS} TO world_cdc")
    lakehouse.cdc("apply", "fleet")
    lakehouse.cdc("onboard", "fleet", f"public.{NO_RIGHTS}")
    change_all(lakehouse)
    lakehouse.cdc("wait", "fleet")
    assert behind(lakehouse) == []


def send(lakehouse: Lakehouse, table: str, key: bytes, value: bytes) -> None:
    from confluent_kafka import Producer

    producer = Producer(kafka_settings(lakehouse.addresses, "core"))
    producer.produce(f"fleet.public.{table}", key=key, value=value)
    assert producer.flush(30) == 0


def last_record(lakehouse: Lakehouse, table: str) -> tuple[bytes, dict[str, Any]]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({**kafka_settings(lakehouse.addresses, "core"), "group.id": "looks", "enable.auto.commit": False})
    try:
        place = TopicPartition(f"fleet.public.{table}", 0)
        _, end = consumer.get_watermark_offsets(place, timeout=30)
        consumer.assign([TopicPartition(place.topic, 0, end - 1)])
        (record,) = consumer.consume(1, timeout=30)
        return record.key(), json.loads(record.value())
    finally:
        consumer.close()


def send_poison(lakehouse: Lakehouse) -> None:
    send(lakehouse, POISON, b'{"id": 5}', b"no JSON")


def send_future(lakehouse: Lakehouse) -> None:
    """A change of a row at a place which the source's log has not reached."""
    key, event = last_record(lakehouse, FUTURE)
    place = 1 << 62
    event["after"] = {**event["after"], "v": "from the future"}
    event["source"] |= {"lsn": place, "sequence": json.dumps([str(place), str(place)])}
    send(lakehouse, FUTURE, key, json.dumps(event).encode())


def write_large(lakehouse: Lakehouse) -> None:
    with lakehouse.connect("world") as world:
        world.execute(f"INSERT INTO {LARGE} VALUES (9, repeat('x', 12000000))")


@pytest.mark.usefixtures("up")
@pytest.mark.parametrize(
    ("harm", "table", "error_class"),
    [(send_poison, POISON, "envelope"), (send_future, FUTURE, "future"), (write_large, LARGE, "large")],
)
def test_a_bad_record_stands_alone(
    lakehouse: Lakehouse, graphql: Graphql, harm: Callable[[Lakehouse], None], table: str, error_class: str
) -> None:
    harm(lakehouse)
    change_all(lakehouse)
    waited = lakehouse.cdc("wait", "fleet")
    assert f"fleet/{table}: 1 record in quarantine: cdc quarantine list fleet/{table}" in waited.stdout
    assert behind(lakehouse, apart=table) == []
    records = json.loads(lakehouse.cdc("quarantine", "list", f"fleet/{table}", "-o", "json").stdout)
    (record,) = [record for record in records if record["error_class"] == error_class]
    known = datetime.fromisoformat(record["first_seen"].replace("Z", "+00:00")).timestamp()
    assert graphql.check_told_at(f"silver/fleet/silver_{table}", "quarantine_empty", "FAILED") - known < AT_ONCE
    told = lakehouse.cdc("status", check=False)
    assert told.returncode == 1
    assert table in told.stdout
    assert "quarantine_empty" in told.stdout
    assert "restored" not in told.stdout


@pytest.mark.usefixtures("up")
def test_a_name_that_the_mirror_keeps_for_itself_is_refused_before_it_harms(lakehouse: Lakehouse) -> None:
    file = lakehouse.sources / "fleet.yaml"
    before = file.read_text()
    declared = yaml.safe_load(before)
    declared["tables"].append({"name": "lake.orders"})
    try:
        file.write_text(yaml.safe_dump(declared))
        for verb in ("validate", "reload", "apply"):
            refused = lakehouse.cdc(verb, check=False)
            assert refused.returncode != 0, verb
            assert "lake.orders" in refused.stdout + refused.stderr, verb
        assert "lake.orders" in lakehouse.cdc("status", check=False).stdout
        change_all(lakehouse)
        until(
            lambda: behind(lakehouse, apart=LARGE) in ([], [FUTURE]), "a name that is refused holds the other tables", seconds=240
        )
    finally:
        file.write_text(before)
        lakehouse.cdc("reload")
