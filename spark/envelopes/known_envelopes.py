"""Envelopes by the name that a spec and a registry file use."""

from __future__ import annotations

from spark.envelopes.attunity_json import AttunityJson
from spark.envelopes.debezium_avro import DebeziumAvro
from spark.envelopes.debezium_json import DebeziumJson
from spark.envelopes.debezium_json_schema import DebeziumJsonSchema
from spark.envelopes.debezium_mongodb import DebeziumMongodb
from spark.envelopes.debezium_unwrapped import DebeziumUnwrapped, DebeziumUnwrappedSchema
from spark.envelopes.debezium_unwrapped_avro import DebeziumUnwrappedAvro
from spark.envelopes.envelope import Envelope
from spark.envelopes.event_avro import EventAvro
from spark.envelopes.event_json import EventJson
from spark.envelopes.plain_avro import PlainAvro
from spark.envelopes.plain_json import PlainJson
from spark.errors import SpecError

KNOWN: tuple[Envelope, ...] = (
    DebeziumJson(),
    DebeziumJsonSchema(),
    DebeziumUnwrapped(),
    DebeziumUnwrappedSchema(),
    DebeziumMongodb(),
    DebeziumAvro(),
    DebeziumUnwrappedAvro(),
    AttunityJson(),
    EventJson(),
    EventAvro(),
    PlainJson(),
    PlainAvro(),
)
ENVELOPES: dict[str, Envelope] = {e.name: e for e in KNOWN}


def envelope(name: str) -> Envelope:
    """The envelope of that name.

    Raises:
        SpecError: naming the known ones.
    """
    if name not in ENVELOPES:
        raise SpecError(f"envelope {name!r} is not known; known are {', '.join(sorted(ENVELOPES))}")
    return ENVELOPES[name]
