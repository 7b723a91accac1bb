"""What the connector sends does not follow the settings of its role in PostgreSQL."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from cdc_assets_tests.support.live.live_source import LiveSource

SETTINGS = {"bytea_output": "escape", "IntervalStyle": "sql_standard", "extra_float_digits": "0", "DateStyle": "German"}
DDL = """
CREATE TYPE settled_parts AS (f float8, b bytea, i interval, d date);
CREATE TABLE settled (id int PRIMARY KEY, e bytea, b bytea, i interval, f float8, parts settled_parts);
INSERT INTO settled VALUES (1, '', '\\x78783631ff', '1 year 2 mons -3 days 04:05:06.789', 0.1::float8 + 0.2,
  ROW(0.1::float8 + 0.2, '\\x78ff', '1 day 02:00', '2024-02-29'))
"""


def base64_of(content: bytes) -> str:
    return base64.b64encode(content).decode()


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
