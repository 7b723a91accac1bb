"""Envelopes by the name that a spec and a registry file use."""

from __future__ import annotations

from spark.envelopes.debezium_json import DebeziumJson
from spark.envelopes.debezium_json_schema import DebeziumJsonSchema
from spark.envelopes.debezium_unwrapped import DebeziumUnwrapped, DebeziumUnwrappedSchema
from spark.envelopes.envelope import Envelope
from spark.errors import SpecError

KNOWN = (DebeziumJson(), DebeziumJsonSchema(), DebeziumUnwrapped(), DebeziumUnwrappedSchema())
ENVELOPES: dict[str, Envelope] = {e.name: e for e in KNOWN}


def envelope(name: str) -> Envelope:
    """The envelope of that name.

    Raises:
        SpecError: naming the known ones.
    """
    if name not in ENVELOPES:
        raise SpecError(f"envelope {name!r} is not known; known are {', '.join(sorted(ENVELOPES))}")
    return ENVELOPES[name]
