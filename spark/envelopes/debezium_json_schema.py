"""Debezium's JSON envelope with its schema in every record: `{"schema": …, "payload": …}`, in keys and values alike.

The schema only repeats what the payload's rows are; it is skipped, not read.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql.types import StructField, StructType

from spark.envelopes.debezium_json import DebeziumJson


class DebeziumJsonSchema(DebeziumJson):
    """As the JSON converter writes it with `schemas.enable=true`."""

    name = "debezium-json-schema"
    form = "a Debezium envelope in JSON with its schema"
    root = "$.payload"

    def wrapped(self, payload: StructType) -> StructType:
        """Under `payload`."""
        return StructType([StructField("payload", payload)])

    def payload(self, document: Expression) -> Expression:
        """What is under `payload`; null where nothing is."""
        return document["payload"]
