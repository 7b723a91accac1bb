"""The form of the records in a connector's topics, by looking at the last ones: converters may be the worker's own."""

from __future__ import annotations

import json
from collections.abc import Iterable

from cdc_assets.errors import AdoptionError
from cdc_assets.resources.kafka import KafkaCluster, Record, TopicState

# Markers of transactions are offsets too.
_LAST = 40
_AVRO = 0


def envelope_of(core: KafkaCluster, states: Iterable[TopicState], connector: str, *, in_avro: bool = False) -> str:
    """`debezium-json` or `debezium-json-schema`, as the topics' last records have it; the first where there is none.

    `in_avro`: its converters are known to write Avro, so that is what it should be: `debezium-avro`.

    Raises:
        AdoptionError: they are in a form that a captured source cannot have, or in two.
    """
    found: dict[str, str] = {}
    for state in states:
        ranges = {p: (max(begin, end - _LAST), end) for p, (begin, end) in state.ranges.items() if end > begin}
        for record in core.records(state.name, ranges) if ranges else ():
            if form := _form(record):
                found.setdefault(form, state.name)
    if len(found) > 1:
        told = ", ".join(f"{form} in {topic}" for form, topic in found.items())
        raise AdoptionError(f"the records of connector {connector} have two forms ({told}), and a source has one; cdc peek TOPIC")
    form, topic = next(iter(found.items()), ("Avro" if in_avro else "debezium-json", ""))
    if form == "Avro" and in_avro:
        return "debezium-avro"
    if form not in ("debezium-json", "debezium-json-schema"):
        raise AdoptionError(
            f"topic {topic} of connector {connector} holds records in {form}, and a captured source has Debezium's envelope in "
            "JSON; declare such topics as a source of kind topics (docs/how-to/add-a-source.md), or let the connector write JSON"
        )
    return form


def _form(record: Record) -> str:
    """Empty for a tombstone, which has none."""
    if not record.value:
        return ""
    if record.value[0] == _AVRO:
        return "Avro"
    try:
        said = json.loads(record.value)
    except ValueError:
        return "another format than JSON"
    if not isinstance(said, dict):
        return "JSON without fields"
    if set(said) == {"schema", "payload"} and isinstance(said["payload"], dict):
        return "debezium-json-schema" if "op" in said["payload"] else "flattened rows with their schema"
    return "debezium-json" if "op" in said and "source" in said else "flattened rows"
