"""The envelope and the kind of positions of a name, as a spec and a registry file use it.

What is known of them without Spark stands in spark.record_formats.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from pyspark.sql import Column

from spark.errors import JobRefusedError
from spark.events.attunity_json import AttunityJson
from spark.events.debezium_envelopes import (
    DebeziumAvro,
    DebeziumJson,
    DebeziumJsonSchema,
    DebeziumUnwrapped,
    DebeziumUnwrappedAvro,
    DebeziumUnwrappedSchema,
)
from spark.events.debezium_mongodb import DebeziumMongodb
from spark.events.envelope import Envelope
from spark.events.generic_records import EventAvro, EventJson, PlainAvro, PlainJson, PlainText
from spark.events.positions import Connector
from spark.events.postgresql_positions import POSTGRESQL
from spark.events.source_positions import ATTUNITY, MARIADB, MONGODB, MYSQL, ORACLE, SQLSERVER, TOPIC

ENVELOPE_CLASSES: tuple[type[Envelope], ...] = (
    PlainJson,
    PlainText,
    PlainAvro,
    EventJson,
    EventAvro,
    AttunityJson,
    DebeziumJson,
    DebeziumJsonSchema,
    DebeziumUnwrapped,
    DebeziumUnwrappedSchema,
    DebeziumMongodb,
    DebeziumAvro,
    DebeziumUnwrappedAvro,
)
CONNECTORS: tuple[Connector, ...] = (POSTGRESQL, MYSQL, MARIADB, SQLSERVER, ORACLE, MONGODB, ATTUNITY, TOPIC)

_CLASSES: Mapping[str, type[Envelope]] = {reader.name: reader for reader in ENVELOPE_CLASSES}
_CONNECTORS: Mapping[str, Connector] = {kind.name: kind for kind in CONNECTORS}


@cache
def envelope(name: str) -> Envelope:
    """The envelope of that name. Raises JobRefusedError: naming the known ones."""
    if name not in _CLASSES:
        raise JobRefusedError(f"envelope {name!r} is not known; known are {', '.join(sorted(_CLASSES))}")
    return _CLASSES[name]()


def connector(name: str) -> Connector:
    """The kind of source of that name. Raises JobRefusedError: naming the known ones."""
    if name not in _CONNECTORS:
        raise JobRefusedError(f"connector {name!r} is not known; known are {', '.join(sorted(_CONNECTORS))}")
    return _CONNECTORS[name]


def write_of(position: Column, name: str) -> Column:
    """The write of a source of this kind that a position is of."""
    return connector(name).write(position)
