"""Names that MirrorMaker 2 keeps for itself are refused where they are declared, with the reason; others are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets.registry.errors import RegistryError
from cdc_assets.registry.loader import load_source

DATABASE = "database: {kind: postgresql, host: h, dbname: d, user: u, password: {secret: s}}"
CYCLE = "takes a topic with the part 'lake' before its last dot for one that came from the lake"
ALIAS = "takes every topic for one that came from the lake where mirror.alias is 'lake'"
OWN = "for its own topics, and never copies them"
KAFKA = "for Kafka's own, and never copies it"
BEATS = "although replication is identity: a name that ends in 'heartbeats' is its own"


def captured(table: str, *more: str, source: str = "shop") -> str:
    return "\n".join((f"source: {source}", DATABASE, f"tables: [{{name: {table}}}]", *more))


def of_topic(topic: str, *more: str) -> str:
    table = f"{{name: t, topic: {topic!r}, envelope: json, columns: {{id: text}}}}"
    return "\n".join(("source: feeds", "kind: topics", f"tables: [{table}]", *more))


IDENTITY, OF_LAKE = "topics: {replication: identity}", "cluster: lake"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (captured("lake.orders"), CYCLE),
        (captured("public.orders", source="lake"), CYCLE),
        (captured("public.orders", "capture: {topic_prefix: eu.lake}"), CYCLE),
        (captured("public.orders", "mirror: {alias: lake}", IDENTITY), ALIAS),
        (of_topic("lake.events"), CYCLE),
        (of_topic("eu.lake.events"), CYCLE),
        (of_topic("__audit"), KAFKA),
        (of_topic(".hidden"), KAFKA),
        (of_topic("orders.checkpoints.internal"), OWN),
        (of_topic("mm2-events.internal"), OWN),
        (captured("public.device_heartbeats", IDENTITY), BEATS),
        (of_topic("heartbeats", IDENTITY), BEATS),
    ],
)
def test_refused(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "file.yaml").write_text(text)
    with pytest.raises(RegistryError) as told:
        load_source(tmp_path / "file.yaml")
    (finding,) = told.value.findings
    assert (finding.path, why in finding.message) == ("tables.0.name", True), finding.message
    assert finding.message.endswith("; give it another name, or take it out of this file")


@pytest.mark.parametrize(
    "text",
    [
        captured("public.heartbeats"),
        captured("public.device_heartbeats"),
        captured("public.lake"),
        captured("lake.orders", IDENTITY),
        captured("public.orders", "mirror: {alias: lake}"),
        captured("lakeside.orders"),
        of_topic("orders.lake"),
        of_topic("orders.internal"),
        of_topic("orders-internal"),
        of_topic("lake.events", OF_LAKE),
        of_topic("__audit", OF_LAKE),
        of_topic("heartbeats", IDENTITY, OF_LAKE),
    ],
)
def test_taken(tmp_path: Path, text: str) -> None:
    (tmp_path / "file.yaml").write_text(text)
    load_source(tmp_path / "file.yaml")
