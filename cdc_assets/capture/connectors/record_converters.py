"""How a connector writes its records: as JSON, with or without a schema beside each, or in Avro with its schema in a registry.

Connect has one converter a connector, for all its topics: in Avro are also heartbeats, notifications, and what is written into
the log as a message. Those who read them here read both (clients.connector_events). A secret stands in a config as a placeholder
that the worker fills in itself, so that the config holds none.

A producer refuses a record above its `max.request.size`, and the connector's task ends with it. On a worker that has converters
of ours (`CDC_CONNECT_BOUND`) a larger value becomes a sentence, which silver holds in quarantine; the other rows go on.
"""

from __future__ import annotations

from collections.abc import Mapping

from cdc_assets.registry import settings
from cdc_assets.registry.errors import ServiceError
from cdc_assets.registry.record_forms import SchemaRegistry, apicurio_root
from cdc_assets.registry.references import SecretRef
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource
from cdc_assets.stack.own_converters import BOUNDED_JSON, LARGEST_VALUE, NULL_KEEPING_AVRO


def password_placeholder(password: SecretRef) -> str:
    """`${dir:…}`, or what the reference says of the worker, which resolves it itself."""
    if password.on_connect is not None:
        return password.on_connect.placeholder
    secrets = settings.lookup("CDC_CONNECT_SECRETS") or str(settings.home() / "secrets")
    return f"${{dir:{secrets}:{password.secret}}}"


JSON = "org.apache.kafka.connect.json.JsonConverter"
CONFLUENT = "io.confluent.connect.avro.AvroConverter"
_PARTS = ("key", "value")
_MOST = "producer.override.max.request.size"
_BESIDE_VALUE = 64 << 10
"""Bytes for a record's key, headers and frame: with the value they make what a producer compares with its limit."""


def converter_settings(source: BaseSource) -> dict[str, str]:
    """Of keys and values alike, as the source declares.
    Raises ServiceError: the registry is none that the declared converter can write to."""
    captured = source.captured
    limit = _value_limit(captured) if captured is not None else {}
    if captured is None or captured.capture.schema_registry is None:
        with_schema = captured is not None and captured.capture.envelope == "debezium-json-schema"
        return {**_json(with_schema=with_schema, value=BOUNDED_JSON.converter if limit else JSON), **limit}
    capture, registry = captured.capture, captured.capture.schema_registry
    assert registry is not None
    options = _apicurio(source.name, registry) if capture.converter == "apicurio" else _confluent(registry)
    return {
        **{f"{record_part}.{name}": value for record_part in _PARTS for name, value in options.items()},
        **(limit if capture.converter == "apicurio" else {}),
        # Avro's names hold letters, digits and _ alone. Debezium asks for that by itself of converters that it knows.
        "field.name.adjustment.mode": "avro",
        "schema.name.adjustment.mode": "avro",
    }


def class_of_converter(source: CapturedSource) -> str:
    """The class that writes the values. Raises ServiceError: as `converter_settings`."""
    if not source.capture.in_avro:
        return BOUNDED_JSON.converter if _value_limit(source) else JSON
    return NULL_KEEPING_AVRO.converter if source.capture.converter == "apicurio" else CONFLUENT


def _value_limit(source: CapturedSource) -> dict[str, str]:
    most = settings.lookup(settings.CONNECT_BOUND) if source.cluster == "core" else None
    if not most:
        return {}
    most = source.capture.settings.get(_MOST) or most
    if not most.isdecimal() or int(most) <= 2 * _BESIDE_VALUE:
        raise ServiceError(
            f"source {source.name}: a producer that sends at most {most!r} bytes has no room for rows: set "
            f"{settings.CONNECT_BOUND} (or capture.settings: {_MOST}) to the worker's producer.max.request.size"
        )
    return {f"value.converter.{LARGEST_VALUE}": str(int(most) - _BESIDE_VALUE)}


def refuse_other_form(running: Mapping[str, str], declared: Mapping[str, str]) -> dict[str, list[str]]:
    """What stands against giving a connector a converter of another form, by the key: its topics, and bronze, hold records in
    the old one, and a topic is read in one form."""
    key = "value.converter"
    was, now = ("Avro" in config[key] if key in config else None for config in (running, declared))
    if was is None or now is None or was == now:
        return {}
    forms = {True: "Avro", False: "JSON"}
    return {
        key: [
            f"the connector's topics hold records in {forms[was]}, and a source is read in one form: capture.envelope stays as "
            f"it is. Declare the tables as a source of another name for {forms[now]}, and take this one out when that is complete"
        ]
    }


def _json(*, with_schema: bool, value: str) -> dict[str, str]:
    return {
        "key.converter": JSON,
        "key.converter.schemas.enable": str(with_schema).lower(),
        "value.converter": value,
        "value.converter.schemas.enable": str(with_schema).lower(),
        # The default writes a column's default value where the row has NULL.
        "value.converter.replace.null.with.default": "false",
    }


def _apicurio(source: str, registry: SchemaRegistry) -> dict[str, str]:
    """Behind a zero byte and the schema's id in four, as Confluent's API tells it; by Apicurio's own API.

    https://www.apicur.io/registry/docs/apicurio-registry/2.6.x/getting-started/assembly-configuring-kafka-client-serdes.html
    """
    root = apicurio_root(registry.place)
    if not root:
        raise ServiceError(
            f"source {source}: capture.schema_registry is at {registry.place}, and Apicurio's converter needs the place where "
            "Apicurio answers as Confluent's registry does (http://host:port/apis/ccompat/v7); for another registry declare "
            "capture.converter: confluent"
        )
    login = {}
    if registry.user is not None and registry.password is not None:
        login = {
            "converter.apicurio.auth.username": settings.resolve(registry.user),
            "converter.apicurio.auth.password": password_placeholder(registry.password),
        }
    return {
        "converter": NULL_KEEPING_AVRO.converter,
        "converter.apicurio.registry.url": f"{root}/apis/registry/v2",
        "converter.apicurio.registry.auto-register": "true",
        "converter.apicurio.registry.as-confluent": "true",
        "converter.apicurio.registry.use-id": "contentId",
        "converter.apicurio.registry.headers.enabled": "false",
        # It asks for each schema again now and then: a registry that is away then stops new schemas alone.
        "converter.apicurio.registry.fault-tolerant-refresh": "true",
        **login,
    }


def _confluent(registry: SchemaRegistry) -> dict[str, str]:
    """In the same frame, by the API that the lake asks: https://docs.confluent.io/platform/current/schema-registry/connect.html"""
    login = {}
    if registry.user is not None and registry.password is not None:
        login = {
            "converter.basic.auth.credentials.source": "USER_INFO",
            "converter.basic.auth.user.info": f"{settings.resolve(registry.user)}:{password_placeholder(registry.password)}",
        }
    return {
        "converter": CONFLUENT,
        "converter.schema.registry.url": registry.place,
        "converter.auto.register.schemas": "true",
        # The default writes a column's default value where the row has NULL.
        "converter.ignore.default.for.nullables": "true",
        **login,
    }
