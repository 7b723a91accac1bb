"""What the topics of a MariaDB's connector leave of each key, by the places of the binlog; and the tables themselves."""

from __future__ import annotations

import json

from cdc_assets.capture.onboarding.onboarding_state import find_source
from cdc_assets.clients.platform import Platform
from cdc_assets.registry import names
from cdc_assets_tests.support.onboarding.ground import Ground

Place = tuple[object, ...]


def last_values(own: Ground, table: str) -> dict[int, str]:
    """Each key's highest event; a row of a snapshot stands below a change at the same place."""
    name = own.live.name
    records = [r for r in own.live.delivered()[f"{name}.{own.schema}.{table}"][0] if r.value is not None]
    found: dict[int, tuple[Place, str | None]] = {}
    for record in records:
        event = json.loads(record.value or "")
        at = event["source"]
        place = (at["file"], at["pos"], event["op"] != "r", at["row"] or 0, record.offset)
        key = json.loads(record.key or "{}")["id"]
        if key not in found or found[key][0] < place:
            found[key] = place, None if event["op"] == "d" else event["after"]["v"]
    return {key: value for key, (_, value) in found.items() if value is not None}


def held(own: Ground, table: str) -> dict[int, str]:
    """The oracle: the table itself."""
    return {row["id"]: row["v"] for row in own.rows(table)}


def nothing_is_left(own: Ground) -> None:
    """Of the connector that worked beside."""
    name = own.live.name
    topic = names.temporary_schema_history_topic(find_source(name))
    assert f"{name}-capture-onboard" not in own.live.connect.connectors()
    assert topic not in Platform().core_kafka("core").states([topic])
