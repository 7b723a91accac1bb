"""The table of envelopes: a row per format of records. Its file is imported when a record is read, not before."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EnvelopeRow:
    """One format. `place` is `module:class` of its Envelope, below the package `spark`.

    `positions`: whose positions its records carry (spark.kinds.positions); empty where the table has to declare it.
    `is_row`: a record is a row, not a change of one, so that it needs no key. `in_avro`: it needs a schema registry.
    `whole_before`: a change has the row before it, whole. `columns`: the only ones that a record can have; none: any.
    `event_time`: a field of the record may be declared as when the event happened.
    """

    name: str
    place: str
    positions: str = ""
    is_row: bool = False
    in_avro: bool = False
    whole_before: bool = False
    columns: tuple[str, ...] = ()
    event_time: bool = False


ROWS: tuple[EnvelopeRow, ...] = (
    EnvelopeRow("json", "envelopes.plain_json:PlainJson", positions="topic", is_row=True, event_time=True),
    EnvelopeRow(
        "text",
        "envelopes.plain_text:PlainText",
        positions="topic",
        is_row=True,
        columns=("value", "key", "time", "headers", "partition", "offset"),
    ),
    EnvelopeRow("avro", "envelopes.plain_avro:PlainAvro", positions="topic", is_row=True, in_avro=True),
    EnvelopeRow("event-json", "envelopes.event_json:EventJson", positions="topic", is_row=True),
    EnvelopeRow("event-avro", "envelopes.event_avro:EventAvro", positions="topic", is_row=True, in_avro=True),
    EnvelopeRow("attunity-json", "envelopes.attunity_json:AttunityJson", positions="attunity"),
    EnvelopeRow("debezium-json", "envelopes.debezium_json:DebeziumJson", whole_before=True),
    EnvelopeRow("debezium-json-schema", "envelopes.debezium_json_schema:DebeziumJsonSchema", whole_before=True),
    EnvelopeRow("debezium-unwrapped", "envelopes.debezium_unwrapped:DebeziumUnwrapped", positions="topic"),
    EnvelopeRow("debezium-unwrapped-schema", "envelopes.debezium_unwrapped:DebeziumUnwrappedSchema", positions="topic"),
    EnvelopeRow("debezium-mongodb", "envelopes.debezium_mongodb:DebeziumMongodb", positions="mongodb"),
    EnvelopeRow("debezium-avro", "envelopes.debezium_avro:DebeziumAvro", in_avro=True, whole_before=True),
    EnvelopeRow(
        "debezium-unwrapped-avro",
        "envelopes.debezium_unwrapped_avro:DebeziumUnwrappedAvro",
        positions="topic",
        in_avro=True,
    ),
)
ENVELOPES: dict[str, EnvelopeRow] = {row.name: row for row in ROWS}
WHOLE_BEFORE = tuple(row.name for row in ROWS if row.whole_before)
