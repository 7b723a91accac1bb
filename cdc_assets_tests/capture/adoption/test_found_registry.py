"""The schema registry of a connector that is taken over, by its converters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cdc_assets.capture.adoption.adopted_source import null_notes, registry_block
from cdc_assets.capture.adoption.running_connector import RunningConnector
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.kinds import KINDS

APICURIO = {
    "": "io.apicurio.registry.utils.converter.AvroConverter",
    ".apicurio.registry.url": "http://schemas:8080/apis/registry/v2",
    ".apicurio.registry.as-confluent": "true",
    ".apicurio.registry.use-id": "contentId",
    ".apicurio.auth.username": "erp",
    ".apicurio.auth.password": "${env:ERP_REGISTRY}",
}
CONFLUENT = {
    "": "io.confluent.connect.avro.AvroConverter",
    ".schema.registry.url": "http://a:8081,http://b:8081",
    ".basic.auth.user.info": "erp:canary",
}


def running(converter: dict[str, str], **more: str) -> RunningConnector:
    config = {f"{part}.converter{name}": value for part in ("key", "value") for name, value in converter.items()}
    kind, keys = KINDS["postgresql"], frozenset[str]()
    found = RunningConnector(name="erp", url="u", kind=kind, config=config, defaults={}, password_keys=keys, offsets=())
    return replace(found, config={**config, **{key.replace("__", "."): value for key, value in more.items()}})


def test_a_registry_is_found_with_its_login_by_reference() -> None:
    assert registry_block(running({"": "org.apache.kafka.connect.json.JsonConverter"}), "erp") == {}
    placed: Any = {"secret": "erp_registry_password", "on_connect": {"env": "ERP_REGISTRY"}}
    assert registry_block(running(APICURIO), "erp") == {
        "converter": "apicurio",
        "schema_registry": {"url": "http://schemas:8080/apis/ccompat/v7", "user": "erp", "password": placed},
    }
    found = registry_block(running(CONFLUENT), "erp")
    assert "canary" not in str(found)
    login = {"user": "erp", "password": {"secret": "erp_registry_password"}}
    assert found == {"converter": "confluent", "schema_registry": {"url": "http://a:8081", **login}}


@pytest.mark.parametrize(
    ("converter", "more", "told"),
    [
        ({**APICURIO, ".apicurio.registry.as-confluent": "false"}, {}, "as-confluent is false: its records do not begin"),
        ({k: v for k, v in APICURIO.items() if "use-id" not in k}, {}, "use-id is not set"),
        ({**APICURIO, ".apicurio.registry.url": "http://x"}, {}, "is http://x, and not Apicurio's API"),
        (APICURIO, {"key__converter": "org.apache.kafka.connect.storage.StringConverter"}, "writes keys otherwise than rows"),
        (APICURIO, {"transforms__flat__type": "io.debezium.transforms.ExtractNewRecordState"}, "flattened rows"),
        ({**CONFLUENT, ".basic.auth.user.info": "${dir:/secrets:both}"}, {}, "one reference for user and password"),
    ],
)
def test_what_could_not_be_read_is_refused(converter: dict[str, str], more: dict[str, str], told: str) -> None:
    with pytest.raises(RefusalError, match=told):
        registry_block(running(converter, **more), "erp")


def test_a_converter_that_loses_nulls_is_told() -> None:
    keeping = {**CONFLUENT, ".ignore.default.for.nullables": "true"}
    assert [bool(null_notes(running(each))) for each in (APICURIO, CONFLUENT, keeping)] == [True, True, False]
    ours = {**APICURIO, "": "cdc_assets.NullKeepingAvroConverter"}
    assert null_notes(running(ours)) == []
