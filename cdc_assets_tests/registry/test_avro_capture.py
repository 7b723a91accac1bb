"""A source that is captured in Avro: what its file must say, and what of it a connector's config holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.capture.connectors.config_difference import find_differing_keys
from cdc_assets.capture.connectors.declared_connectors import capture_config
from cdc_assets.capture.connectors.record_converters import class_of_converter, refuse_other_form
from cdc_assets.registry.errors import MissingSecretError, RegistryError, ServiceError
from cdc_assets.registry.loader import load_source
from cdc_assets.registry.source_declaration import CapturedSource
from cdc_assets.stack.declared_needs import plugins
from spark.events.avro_schemas import without_login

URL = "https://schemas.example.com/apis/ccompat/v7"
LOGIN = {"url": URL, "user": "cdc", "password": {"secret": "registry_password"}}
CANARY = "s3cr/t canary:@"


def source_of(folder: Path, capture: dict[str, Any], **more: Any) -> CapturedSource:
    database = {"kind": "postgresql", "host": "h", "dbname": "d", "user": "u", "password": {"secret": "db_password"}}
    document = {"source": "shop", "database": database, "capture": capture, "tables": [{"name": "public.orders"}], **more}
    file = folder / "shop.yaml"
    file.write_text(json.dumps(document))
    source = load_source(file).captured
    assert source is not None
    return source


@pytest.mark.parametrize(
    ("capture", "told"),
    [
        ({"envelope": "debezium-avro"}, "debezium-avro needs capture.schema_registry"),
        ({"schema_registry": URL}, "capture.schema_registry: records in debezium-json have no schema in a registry"),
        ({"converter": "confluent"}, "capture.converter: records in debezium-json have no schema"),
        (
            {"envelope": "debezium-avro", "schema_registry": "http://karapace:8081"},
            "http://karapace:8081 is not where Apicurio answers as Confluent's registry does .* capture.converter: confluent",
        ),
        ({"envelope": "debezium-avro", "schema_registry": {"url": URL, "user": "cdc"}}, "a login is a user and a password"),
        (
            {"envelope": "debezium-avro", "schema_registry": "schemas:8081"},
            "its address is http://… or https://…, got 'schemas:8081'",
        ),
        ({"envelope": "debezium-avro", "schema_registry": {**LOGIN, "pasword": 1}}, "pasword"),
        (
            {"envelope": "debezium-avro", "schema_registry": URL.replace("//", "//cdc:canary@")},
            "a login in it would lie in the connector's config in clear",
        ),
        (
            {"envelope": "debezium-avro", "schema_registry": {**LOGIN, "url": URL.replace("//", "//cdc:canary@")}},
            "its login stands in user and password already",
        ),
    ],
)
def test_what_cannot_work_is_refused(capture: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match=told) as refused:
        source_of(tmp_path, capture)
    assert "canary" not in str(refused.value)


def test_a_kind_with_one_form_refuses_another(tmp_path: Path) -> None:
    database = {"kind": "mongodb", "hosts": "h:1", "replica_set": "r", "user": "u", "password": {"secret": "p"}}
    with pytest.raises(RegistryError, match="the connector of kind mongodb writes debezium-mongodb only"):
        source_of(
            tmp_path,
            {"envelope": "debezium-avro", "schema_registry": LOGIN},
            database=database,
            tables=[{"name": "shop.orders", "columns": {"_id": "text not null"}, "keys": ["_id"]}],
        )


def test_the_connector_gets_references_and_the_jobs_the_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    monkeypatch.setenv("CDC_CONNECT_SECRETS", "/secrets")
    source = source_of(tmp_path, {"envelope": "debezium-avro", "schema_registry": LOGIN})
    with pytest.raises(MissingSecretError, match="registry_password"):
        source.record_form(source.tables[0])
    monkeypatch.setenv("CDC_SECRET_REGISTRY_PASSWORD", CANARY)
    form = source.record_form(source.tables[0])
    assert (form["envelope"], form["connector"]) == ("debezium-avro", "postgresql")
    assert without_login(form["schema_registry"] or "") == without_login(
        "https://cdc:s3cr%2Ft%20canary%3A%40@schemas.example.com/apis/ccompat/v7"
    )
    config = capture_config(source)
    assert CANARY not in json.dumps(config)
    for part in ("key", "value"):
        written = {key.removeprefix(f"{part}.converter"): config[key] for key in config if key.startswith(f"{part}.converter")}
        assert written == {
            "": "cdc_assets.NullKeepingAvroConverter",
            ".apicurio.registry.url": "https://schemas.example.com/apis/registry/v2",
            ".apicurio.registry.auto-register": "true",
            ".apicurio.registry.as-confluent": "true",
            ".apicurio.registry.use-id": "contentId",
            ".apicurio.registry.headers.enabled": "false",
            ".apicurio.registry.fault-tolerant-refresh": "true",
            ".apicurio.auth.username": "cdc",
            ".apicurio.auth.password": "${dir:/secrets:registry_password}",
        }


def test_confluents_converter_is_told_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_CONNECT_SECRETS", "/secrets")
    registry = {**LOGIN, "url": "https://schemas.example.com"}
    config = capture_config(
        source_of(tmp_path, {"envelope": "debezium-avro", "converter": "confluent", "schema_registry": registry})
    )
    written = {key: value for key, value in config.items() if key.startswith("value.converter")}
    assert written == {
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": "https://schemas.example.com",
        "value.converter.auto.register.schemas": "true",
        "value.converter.ignore.default.for.nullables": "true",
        "value.converter.basic.auth.credentials.source": "USER_INFO",
        "value.converter.basic.auth.user.info": "cdc:${dir:/secrets:registry_password}",
    }
    deployed = {key: value.replace("${dir:/secrets:", "${secrets:kafka/cdc:") for key, value in config.items()}
    assert find_differing_keys(config, deployed, shared=False) == []
    another = {**deployed, "value.converter.basic.auth.user.info": "cdc:${secrets:kafka/cdc:other}"}
    assert find_differing_keys(config, another, shared=False) == ["value.converter.basic.auth.user.info"]


def test_an_address_by_a_variable_is_judged_when_it_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    capture = {"envelope": "debezium-avro", "schema_registry": {"url": {"env": "SCHEMAS"}}}
    source = source_of(tmp_path, capture)
    monkeypatch.setenv("SCHEMAS", "http://karapace:8081")
    with pytest.raises(ServiceError, match="capture.schema_registry is at http://karapace:8081, and Apicurio's converter"):
        capture_config(source)
    monkeypatch.setenv("SCHEMAS", URL)
    assert capture_config(source)["value.converter.apicurio.registry.url"].startswith("https://schemas.example.com/apis/registry")


def test_the_jars_are_wanted_where_a_source_declares_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_SOURCES", str(tmp_path))
    for capture, wanted in (
        ({}, ("debezium-postgres",)),
        ({"envelope": "debezium-avro", "schema_registry": LOGIN}, ("debezium-postgres", "apicurio-converter")),
        ({"envelope": "debezium-avro", "schema_registry": LOGIN, "converter": "confluent"}, ("debezium-postgres",)),
    ):
        source_of(tmp_path, capture)
        assert plugins() == wanted


def test_a_connector_keeps_its_form() -> None:
    json_, avro = ({"value.converter": name} for name in ("o.a.k.JsonConverter", "cdc_assets.NullKeepingAvroConverter"))
    assert "hold records in JSON" in refuse_other_form(json_, avro)["value.converter"][0]
    assert "hold records in Avro" in refuse_other_form(avro, json_)["value.converter"][0]
    for running, declared in ((json_, json_), (avro, {"value.converter": "io.confluent.connect.avro.AvroConverter"}), ({}, avro)):
        assert refuse_other_form(running, declared) == {}


AVRO = {"envelope": "debezium-avro", "schema_registry": LOGIN}
MOST = "producer.override.max.request.size"


@pytest.mark.parametrize(
    ("capture", "most", "converter", "largest"),
    [
        ({}, None, "org.apache.kafka.connect.json.JsonConverter", None),
        ({}, "10485760", "cdc_assets.BoundedJsonConverter", "10420224"),
        ({"settings": {MOST: "67108864"}}, "10485760", "cdc_assets.BoundedJsonConverter", "67043328"),
        ({"settings": {MOST: "67108864"}}, None, "org.apache.kafka.connect.json.JsonConverter", None),
        (AVRO, None, "cdc_assets.NullKeepingAvroConverter", None),
        (AVRO, "10485760", "cdc_assets.NullKeepingAvroConverter", "10420224"),
        ({**AVRO, "converter": "confluent"}, "10485760", "io.confluent.connect.avro.AvroConverter", None),
    ],
)
def test_values_are_bounded_where_the_worker_has_our_converters(
    capture: dict[str, Any],
    most: str | None,
    converter: str,
    largest: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    if most:
        monkeypatch.setenv("CDC_CONNECT_BOUND", most)
    source = source_of(tmp_path, capture)
    config = capture_config(source)
    assert config["value.converter"] == class_of_converter(source) == converter
    assert config.get("value.converter.largest.value.bytes") == largest
    assert "key.converter.largest.value.bytes" not in config


@pytest.mark.parametrize("most", ["10 MiB", "0", "-1", "131072"])
def test_a_limit_without_room_for_rows_is_refused(most: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    monkeypatch.setenv("CDC_CONNECT_BOUND", most)
    with pytest.raises(ServiceError, match=f"at most '{most}' bytes has no room for rows: set CDC_CONNECT_BOUND"):
        capture_config(source_of(tmp_path, {}))
