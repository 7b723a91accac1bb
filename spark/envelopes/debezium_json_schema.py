"""Debezium's JSON envelope with its schema in every record."""

from __future__ import annotations

from spark.envelopes.debezium_json import DebeziumJson
from spark.envelopes.under_payload import UnderPayload


class DebeziumJsonSchema(UnderPayload, DebeziumJson):
    """As the JSON converter writes it with `schemas.enable=true`."""

    name = "debezium-json-schema"
    form = "a Debezium envelope in JSON with its schema"
