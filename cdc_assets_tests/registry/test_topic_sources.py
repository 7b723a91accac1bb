"""Sources of topics: what the registry takes and refuses, and what the jobs are told."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from cdc_assets.capture.source_columns import catalogue_table
from cdc_assets.chain.fold_specs import silver_spec
from cdc_assets.registry import names
from cdc_assets.registry.errors import RegistryError
from cdc_assets.registry.loader import load_source
from cdc_assets.registry.source_declaration import TopicSource
from spark.record_formats import ENVELOPES, POSITION_KINDS
from spark.specs import Column

GOOD = """\
source: feeds
kind: topics
owners: ["team:data"]
tables:
  - name: city
    topic: replicate.world.city
    envelope: attunity-json
    keys: [ID]
    columns: {ID: integer not null, Name: "character varying(35) NOT NULL", Population: integer}
  - name: readings
    topic: iot.readings
    envelope: json
    columns: {sensor: text, value: double precision}
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "feeds.yaml"
    file.write_text(text)
    return file


def source_of(folder: Path, text: str = GOOD) -> TopicSource:
    source = load_source(written(folder, text))
    assert isinstance(source, TopicSource)
    return source


def test_what_the_jobs_are_told(tmp_path: Path) -> None:
    source = source_of(tmp_path)
    city, readings = source.tables
    assert [names.lake_topic(source, table) for table in source.tables] == ["core.replicate.world.city", "core.iot.readings"]
    spec = silver_spec("/lake", source, city, catalogue_table(city))
    assert spec.foreign, "others write its records"
    assert spec.columns == (
        Column("ID", "integer", False),
        Column("Name", "character varying(35)", False),
        Column("Population", "integer"),
    )
    assert (spec.keys, spec.envelope, spec.connector) == (("ID",), "attunity-json", "attunity")
    assert source.record_form(readings) == {"envelope": "json", "connector": "topic", "schema_registry": None}
    assert silver_spec("/lake", source, readings, catalogue_table(readings)).keys == ()


def test_topics_on_the_lake_are_not_mirrored(tmp_path: Path) -> None:
    source = source_of(tmp_path, GOOD.replace("kind: topics", "kind: topics\ncluster: lake"))
    assert [names.lake_topic(source, table) for table in source.tables] == ["replicate.world.city", "iot.readings"]


@pytest.mark.parametrize(
    ("wrong", "right", "message"),
    [
        ("kind: topics", "kind: topic", "feeds.yaml:2: kind: no such kind, got 'topic'; accepted: database, topics"),
        ("    keys: [ID]\n", "", "envelope attunity-json holds changes of rows: declare the keys they are known by"),
        ("keys: [ID]", "keys: [id]", "keys that are not among the columns ID, Name, Population: id"),
        ("attunity-json", "debezium-json", "does not say whose positions it carries: declare the connector"),
        ("attunity-json\n", "debezium-avro\n    connector: mysql\n", "city in Avro: declare the schema_registry"),
        ("    topic: iot.readings\n", "", "tables.1.topic: is missing"),
        ("columns: {sensor", "colums: {sensor", "unknown key; accepted: "),
        ("owners:", "database: {}\nowners:", "database: unknown key"),
        ("envelope: json", "envelope: text", "columns sensor: a record in text has value, key, time, headers, partition, offset"),
        ("keys: [ID]", "event_time: {field: at}", "no field of a record in attunity-json can be named; of json it can"),
        ("    envelope: json", "    event_time: {field: at..on}\n    envelope: json", "tables.1.event_time.field"),
        ("    envelope: json", "    retention: 1d\n    envelope: json", "the topic is made, and kept, by whoever fills it"),
    ],
)
def test_what_is_refused(tmp_path: Path, wrong: str, right: str, message: str) -> None:
    with pytest.raises(RegistryError) as refused:
        load_source(written(tmp_path, GOOD.replace(wrong, right)))
    assert message in str(refused.value)


def test_the_time_of_an_event_may_be_a_field(tmp_path: Path) -> None:
    said = "    event_time: {field: sent.at, form: milliseconds}\n    envelope: json"
    city, readings = source_of(tmp_path, GOOD.replace("    envelope: json", said)).tables
    assert (city.time_field, readings.time_field) == ("", "milliseconds:sent.at")


def test_every_declarable_envelope_and_connector_is_known_to_the_jobs() -> None:
    pytest.importorskip("pyspark")
    from spark.events.record_readers import connector, envelope

    assert {name: envelope(name).name for name in ENVELOPES} == {name: name for name in ENVELOPES}
    assert {name: connector(name).name for name in POSITION_KINDS} == {name: name for name in POSITION_KINDS}


PARTS = {"name": "city", "topic": "t", "envelope": "json", "keys": ["id"], "columns": {"id": "integer not null", "n": "text"}}


def of_parts(**more: object) -> TopicSource:
    table = {**PARTS, "columns": {"id": "integer not null", "n": "text", "said": "text[]"}, **more}
    return TopicSource.model_validate({"source": "p", "kind": "topics", "tables": [table]})


def test_parts_of_rows() -> None:
    source = of_parts(ignore_null_updates=True, columns_to_update="said")
    (table,) = source.tables
    spec = silver_spec("/lake", source, table, catalogue_table(table))
    assert (spec.ignore_null_updates, spec.columns_to_update) == (("n",), "said")
    but = of_parts(ignore_null_updates_except_column_list=["n"])
    assert silver_spec("/lake", but, but.tables[0], catalogue_table(but.tables[0])).ignore_null_updates == ("said",)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"ignore_null_updates": True, "ignore_null_updates_column_list": ["n"]}, "give one of"),
        ({"ignore_null_updates_column_list": ["m"]}, "not among the columns id, n, said: m"),
        ({"ignore_null_updates_column_list": ["id"]}, "id: a column of the key"),
        ({"columns_to_update": "n"}, "n lists columns: it is of type"),
        ({"ignore_null_updates": True, "keys": None}, "needs keys"),
        ({"ignore_null_updates": True, "envelope": "attunity-json"}, "says itself which columns it holds"),
        ({"without_key": "multiset", "keys": None}, "needs before-images"),
    ],
)
def test_parts_of_rows_that_make_no_sense(more: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        of_parts(**more)
