"""The table of envelopes: a row per format of records. Its file is imported when a record is read, not before."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EnvelopeRow:
    """One format. `place` is `module:class` of its Envelope.

    `positions`: whose positions its records carry (spark.kinds.positions); empty where the table has to declare it.
    `is_row`: a record is a row, not a change of one, so that it needs no key. `in_avro`: it needs a schema registry.
    `whole_before`: a change has the row before it, whole.
    """

    name: str
    place: str
    positions: str = ""
    is_row: bool = False
    in_avro: bool = False
    whole_before: bool = False


ROWS: tuple[EnvelopeRow, ...] = (
    EnvelopeRow("json", "spark.envelopes.plain_json:PlainJson", positions="topic", is_row=True),
    EnvelopeRow("avro", "spark.envelopes.plain_avro:PlainAvro", positions="topic", is_row=True, in_avro=True),
    EnvelopeRow("event-json", "spark.envelopes.event_json:EventJson", positions="topic", is_row=True),
    EnvelopeRow("event-avro", "spark.envelopes.event_avro:EventAvro", positions="topic", is_row=True, in_avro=True),
    EnvelopeRow("attunity-json", "spark.envelopes.attunity_json:AttunityJson", positions="attunity"),
    EnvelopeRow("debezium-json", "spark.envelopes.debezium_json:DebeziumJson", whole_before=True),
    EnvelopeRow("debezium-json-schema", "spark.envelopes.debezium_json_schema:DebeziumJsonSchema", whole_before=True),
    EnvelopeRow("debezium-unwrapped", "spark.envelopes.debezium_unwrapped:DebeziumUnwrapped", positions="topic"),
    EnvelopeRow("debezium-unwrapped-schema", "spark.envelopes.debezium_unwrapped:DebeziumUnwrappedSchema", positions="topic"),
    EnvelopeRow("debezium-mongodb", "spark.envelopes.debezium_mongodb:DebeziumMongodb", positions="mongodb"),
    EnvelopeRow("debezium-avro", "spark.envelopes.debezium_avro:DebeziumAvro", in_avro=True, whole_before=True),
    EnvelopeRow(
        "debezium-unwrapped-avro",
        "spark.envelopes.debezium_unwrapped_avro:DebeziumUnwrappedAvro",
        positions="topic",
        in_avro=True,
    ),
)
ENVELOPES: dict[str, EnvelopeRow] = {row.name: row for row in ROWS}
WHOLE_BEFORE = tuple(row.name for row in ROWS if row.whole_before)
