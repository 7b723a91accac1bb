"""The changes of a live PostgreSQL in each of Debezium's forms: whole, with schemas, flattened, in Avro: all say the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets.clients.databases.row_pages import RowForm
from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets.clients.topic_rows import TopicFold
from cdc_assets.registry.table_declaration import TopicTable
from cdc_assets_tests.support.lake.records import Sent, leaves_of
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.servers.apicurio import Apicurio, apicurio
from spark.proof.row_text import RowText
from spark.specs import Column, SilverSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

COLUMNS = (
    Column("id", "integer", False),
    Column("na.me", "text"),
    Column("n", "numeric"),
    Column("at", "timestamp"),
    Column("more", "bigint"),
)
SCHEMAS = {"key__converter__schemas__enable": "true", "value__converter__schemas__enable": "true"}
FLAT = {
    "transforms": "unwrap",
    "transforms__unwrap__type": "io.debezium.transforms.ExtractNewRecordState",
    "transforms__unwrap__delete__tombstone__handling__mode": "rewrite",
}
FIELDS = {"transforms__unwrap__add__fields": "op,source.lsn,sequence,txId,source.ts_us,snapshot"}
HEADERS = {"transforms__unwrap__add__headers": "op,source.lsn,sequence,txId,source.ts_us,snapshot"}
FORMS = {
    "whole": ("debezium-json", {}),
    "schema": ("debezium-json-schema", SCHEMAS),
    "fields": ("debezium-unwrapped", {**FLAT, **FIELDS}),
    "headers": ("debezium-unwrapped", {**FLAT, **HEADERS}),
    "both": ("debezium-unwrapped-schema", {**FLAT, **FIELDS, **SCHEMAS}),
    "avro": ("debezium-avro", {}),
    "flatavro": ("debezium-unwrapped-avro", {**FLAT, **FIELDS}),
}


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Apicurio]:
    with apicurio(tmp_path / "registry") as found:
        yield found


def test_all_forms_say_the_same(session: SparkSession, live: LiveSource, registry: Apicurio) -> None:
    with live.connection() as connection:
        connection.execute('CREATE TABLE forms (id int PRIMARY KEY, "na.me" text, n numeric(9,2), at timestamp)')
        connection.execute("INSERT INTO forms VALUES (1, 'snapshot', 1.50, '2024-02-29 12:00:00.000001'), (2, NULL, NULL, NULL)")
    captured = {name: replace(live, name=f"form{name}") for name in FORMS}
    for name, (form, overrides) in FORMS.items():
        avro = {k.replace(".", "__"): v for k, v in registry.converters().items()} if "avro" in form else {}
        captured[name].capture(["public.forms"], **overrides, **avro)
        captured[name].delivered()
    with live.connection(autocommit=False) as connection:
        connection.execute("INSERT INTO forms VALUES (3, 'quo\"te', -0.01, NULL)")
        connection.commit()
        # From here on another writer's schema.
        connection.execute("ALTER TABLE forms ADD more bigint")
        connection.execute("UPDATE forms SET \"na.me\" = 'again' WHERE id = 1")
        connection.execute("UPDATE forms SET id = 4 WHERE id = 2")
        connection.execute("DELETE FROM forms WHERE id = 3")
        connection.commit()
    said: dict[str, list[Any]] = {}
    for name, (form, _) in FORMS.items():
        (records,) = captured[name].delivered()[f"form{name}.public.forms"].values()
        sent = [Sent(record.value, record.key, record.headers) for record in records if record.value is not None]
        if form == "debezium-avro":
            assert len({record.value[:5] for record in sent}) == 2, "one writer's schema before the ALTER, another behind it"
        found = leaves_of(session, (form, "postgresql"), COLUMNS, ["id"], sent, registry.url)
        facts = ("unreadable", "op", "source_ts", "tx_id", "row")
        said[name] = [(*(repr(event[fact]) for fact in facts), event["position"][:-17]) for event in found]
    assert [event[1] for event in said["whole"]] == [repr(op) for op in ("r", "r", "c", "u", "d", "c", "d")]
    assert {event[0] for event in said["whole"]} == {"None"}
    streamed = {name: events[2:] for name, events in said.items()}
    snapshot = {name: [event[4] for event in events[:2]] for name, events in said.items()}
    assert {name for name in FORMS if streamed[name] != streamed["whole"]} == set()
    assert {name for name in FORMS if snapshot[name] != snapshot["whole"]} == set()
    with live.connection() as connection:
        rows = {f"{row[0]};": tuple(row) for row in connection.execute('SELECT id, "na.me", n, at, more FROM forms')}
    assert {
        name: read_again(live.bootstrap, f"form{name}.public.forms", form, registry) for name, (form, _) in FORMS.items()
    } == dict.fromkeys(FORMS, rows)


def read_again(bootstrap: str, topic: str, envelope: str, registry: Apicurio) -> dict[str, Any]:
    """The rows that the topic alone makes, by the second reading (`cdc reconcile` of a source of topics)."""
    columns = {
        "id": "integer not null",
        "na.me": "text",
        "n": "numeric(9,2)",
        "at": "timestamp without time zone",
        "more": "bigint",
    }
    declared = {"name": "forms", "topic": topic, "envelope": envelope, "keys": ["id"], "columns": columns}
    table = TopicTable.model_validate({**declared, "connector": "postgresql"})
    spec = SilverSpec("s", "forms", "-", "-", tuple(Column(n, t.removesuffix(" not null")) for n, t in columns.items()), ("id",))
    fold = TopicFold(KafkaCluster(bootstrap), topic, table, (0, 1), RowForm(RowText(spec)), registry.url)
    fold.advance()
    assert fold.knows_all
    assert fold.unreadable == 0
    return fold.rows()
