"""What the connector sends does not follow the settings of its role in PostgreSQL."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from typing_extensions import override

from cdc_assets.capture.connectors.postgresql_connector import capture_config, refuse_time_zone
from cdc_assets.registry.errors import ServiceError
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.support.live.live_source import LiveSource, Part
from cdc_assets_tests.support.servers.apicurio import WorkerWithAvro

SETTINGS = {"bytea_output": "escape", "IntervalStyle": "sql_standard", "extra_float_digits": "0", "DateStyle": "German"}
DDL = """
CREATE TYPE settled_parts AS (f float8, b bytea, i interval, d date);
CREATE TABLE settled (id int PRIMARY KEY, e bytea, b bytea, i interval, f float8, parts settled_parts);
INSERT INTO settled VALUES (1, '', '\\x78783631ff', '1 year 2 mons -3 days 04:05:06.789', 0.1::float8 + 0.2,
  ROW(0.1::float8 + 0.2, '\\x78ff', '1 day 02:00', '2024-02-29'))
"""


def base64_of(content: bytes) -> str:
    return base64.b64encode(content).decode()


# Moments inside of values: in a row of rows, in ranges of somebody's own, in a range of a row; and columns without any.
ZONED = r"""
CREATE SCHEMA zoned; SET search_path TO zoned;
CREATE TYPE moment AS (n int, t timestamptz); CREATE TYPE moments AS (list moment[]); CREATE DOMAIN domained AS moments;
CREATE TYPE span AS RANGE (subtype = timestamptz); CREATE TYPE spanned AS (r tstzrange);
CREATE TABLE "it's $cdc$ \;d" (id int PRIMARY KEY, v domained); CREATE TABLE spans (id int PRIMARY KEY, v span_multirange[]);
CREATE TABLE row_of_range (id int PRIMARY KEY, v spanned);
CREATE TYPE clocks AS (z timetz, t timestamp);
CREATE TABLE plain (id int PRIMARY KEY, t timestamptz, r tstzrange, m tstzmultirange, l timestamptz[], v clocks)
"""
INSIDE = ('zoned."it\'s $cdc$ \\;d"', "zoned.spans", "zoned.row_of_range")
SENT = {
    "e": "",
    "b": base64_of(b"xx61\xff"),
    "i": "P1Y2M-3DT4H5M6.789S",
    "f": 0.30000000000000004,
    "parts": base64_of(rb'(0.30000000000000004,"\\x78ff","1 day 02:00:00",2024-02-29)'),
}


def sent(live: LiveSource, **overrides: str) -> list[dict[str, Any]]:
    """A row as the snapshot has it, and a copy as the stream has it, while the role has these settings."""
    with live.connection() as connection:
        connection.execute("DROP TABLE IF EXISTS settled; DROP TYPE IF EXISTS settled_parts")
        connection.execute(DDL.encode())
        for name, value in SETTINGS.items():
            connection.execute(f"ALTER ROLE live SET {name} = '{value}'".encode())
        try:
            live.capture(["public.settled"], **overrides)
            live.delivered()
            connection.execute("INSERT INTO settled SELECT 2, e, b, i, f, parts FROM settled")
            records = live.delivered()[f"{live.name}.public.settled"][0]
        finally:
            connection.execute("ALTER ROLE live RESET ALL")
            live.connect.delete(f"{live.name}-capture")
    return [json.loads(record.value or "")["after"] for record in records]


@pytest.mark.stack
def test_values_do_not_follow_the_settings_of_the_role(live: LiveSource) -> None:
    """An empty bytea stopped the connector, another one was read as digits; a float in a row type lost its last digits."""
    assert sent(replace(live, name="settled")) == [{"id": 1, **SENT}, {"id": 2, **SENT}]


@pytest.fixture
def zoned(live: LiveSource) -> Iterator[LiveSource]:
    with live.connection() as connection:
        connection.execute(ZONED.encode())
    own = replace(live, name="zoned")
    yield own
    own.connect.delete("zoned-capture")
    with live.connection() as connection:
        connection.execute("DROP SCHEMA zoned CASCADE")


@pytest.mark.stack
def test_a_time_zone_that_would_be_in_the_values_is_refused(zoned: LiveSource) -> None:
    """Only where a table has such values: everywhere else a worker in any time zone is right."""
    with zoned.connection() as connection, zoned.settings():
        for zone in ("UTC", "Europe/London", "America/New_York"):
            connection.execute(f"SET TimeZone = '{zone}'; SET standard_conforming_strings = off; RESET search_path".encode())
            refused = [table for table in (*INSIDE, "zoned.plain") if is_refused(connection, zoned.source([table]))]
            assert refused == ([] if zone == "UTC" else [*INSIDE])
        without = zoned.source([{"name": "zoned.spans", "except_column_list": ["v"]}])
        assert not is_refused(connection, without)
        statements = capture_config(zoned.source(["zoned.spans"]))["database.initial.statements"]
    # Of a worker elsewhere the session alone is in another time zone; `--all` starts one.
    with pytest.raises(ServiceError) as refusal:
        zoned.capture(["zoned.spans"], database__initial__statements=f"SET TimeZone = 'Asia/Tokyo';{statements}")
    assert_told(refusal.value)


@pytest.mark.all
@pytest.mark.stack
def test_a_worker_elsewhere_is_refused(zoned: LiveSource) -> None:
    """The table without such values is captured by it."""
    here = zoned.parts["core-connect"]
    elsewhere = Part(WorkerInTokyo(here.component.site, "core"))
    here.kill()
    elsewhere.start()
    try:
        with pytest.raises(ServiceError) as refusal:
            zoned.capture(["zoned.spans"])
        assert_told(refusal.value)
        zoned.capture(["zoned.plain"])
    finally:
        elsewhere.kill()
        here.start()


class WorkerInTokyo(WorkerWithAvro):
    @override
    def command(self) -> list[str]:
        return [part.replace("-Duser.timezone=UTC", "-Duser.timezone=Asia/Tokyo") for part in super().command()]


def assert_told(refusal: ServiceError) -> None:
    told = str(refusal)
    assert "the Connect worker runs in time zone Asia/Tokyo" in told
    assert "moments inside of zoned.spans.v" in told
    assert "KAFKA_OPTS=-Duser.timezone=UTC" in told


def is_refused(connection: psycopg.Connection, source: Source) -> bool:
    try:
        connection.execute(refuse_time_zone(source).replace(";;", ";").encode())
    except psycopg.errors.InvalidAuthorizationSpecification:
        return True
    return False
