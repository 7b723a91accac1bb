"""What is known of records and their positions without Spark: formats, kinds of positions, marks, and places between commits.

A row per format of records and per kind of position; the code of one is imported when a record is read, not before, so that a
registry can be read without Spark. The marks are what connectors and we ourselves mark records with.

A place between two commits is written as positions have it less their epoch. PostgreSQL: its anchor is the last commit before
the place, and every later transaction has a higher anchor, every earlier one a lower one. A transaction that a connector streams
at its start may not know the commit right before it: whatever has the anchor of the place itself is on neither side. Binlog:
commits are whole in it and in its order, so the bytes decide.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EnvelopeRow:
    """One format. `place` is `module:class` of its Envelope, below the package `spark`.

    `positions`: whose positions its records carry (spark.record_formats); empty where the table has to declare it.
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


ENVELOPE_ROWS: tuple[EnvelopeRow, ...] = (
    EnvelopeRow("json", "events.generic_records:PlainJson", positions="topic", is_row=True, event_time=True),
    EnvelopeRow(
        "text",
        "events.generic_records:PlainText",
        positions="topic",
        is_row=True,
        columns=("value", "key", "time", "headers", "partition", "offset"),
    ),
    EnvelopeRow("avro", "events.generic_records:PlainAvro", positions="topic", is_row=True, in_avro=True),
    EnvelopeRow("event-json", "events.generic_records:EventJson", positions="topic", is_row=True),
    EnvelopeRow("event-avro", "events.generic_records:EventAvro", positions="topic", is_row=True, in_avro=True),
    EnvelopeRow("attunity-json", "events.attunity_json:AttunityJson", positions="attunity"),
    EnvelopeRow("debezium-json", "events.debezium_envelopes:DebeziumJson", whole_before=True),
    EnvelopeRow("debezium-json-schema", "events.debezium_envelopes:DebeziumJsonSchema", whole_before=True),
    EnvelopeRow("debezium-unwrapped", "events.debezium_envelopes:DebeziumUnwrapped", positions="topic"),
    EnvelopeRow("debezium-unwrapped-schema", "events.debezium_envelopes:DebeziumUnwrappedSchema", positions="topic"),
    EnvelopeRow("debezium-mongodb", "events.debezium_mongodb:DebeziumMongodb", positions="mongodb"),
    EnvelopeRow("debezium-avro", "events.debezium_envelopes:DebeziumAvro", in_avro=True, whole_before=True),
    EnvelopeRow(
        "debezium-unwrapped-avro",
        "events.debezium_envelopes:DebeziumUnwrappedAvro",
        positions="topic",
        in_avro=True,
    ),
)
ENVELOPES: dict[str, EnvelopeRow] = {row.name: row for row in ENVELOPE_ROWS}
WHOLE_BEFORE = tuple(row.name for row in ENVELOPE_ROWS if row.whole_before)


POSITION_KINDS: dict[str, str] = {
    "postgresql": "events.postgresql_positions:POSTGRESQL",
    "mysql": "events.source_positions:MYSQL",
    "mariadb": "events.source_positions:MARIADB",
    "sqlserver": "events.source_positions:SQLSERVER",
    "oracle": "events.source_positions:ORACLE",
    "mongodb": "events.source_positions:MONGODB",
    "attunity": "events.source_positions:ATTUNITY",
    "topic": "events.source_positions:TOPIC",
}
"""By the name that a spec and a registry file use; `module:name` of its Connector, below the package `spark`."""


ANCHOR_HEADER, UNCHANGED_HEADER, LARGE_HEADER = "cdc_assets.anchor", "cdc_assets.unchanged", "cdc_assets.large"
"""Headers of a record: the commit (LSN) behind which a row read by a temporary connector stands; its connector's own
`unavailable.value.placeholder`; what a record was that is too large for bronze, which has this sentence in its place."""

TOO_LARGE = "the record is too large"
"""That sentence's beginning."""

DEBEZIUM_UNAVAILABLE = "__debezium_unavailable_value"
"""Debezium's own `unavailable.value.placeholder`: of somebody else's connector, unless he has changed it."""


@dataclass(frozen=True)
class CommitPlace:
    """What was committed behind it sorts above `behind`, all else below; `unclear` is what places on neither side begin with.

    `text` is the place as the server's own tools write it.
    """

    text: str
    behind: str
    unclear: str = ""


def behind_commit(lsn: int) -> CommitPlace:
    """Of PostgreSQL, behind the commit that ends at this LSN; a snapshot's row taken there is before it."""
    own = f"{lsn:016x}.1."
    return CommitPlace(f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}", f"{own}~", own)


def in_binlog(text: str, place: str) -> CommitPlace:
    """Of a binlog, before the event at this file and position, which `place` says as positions do (BinlogPosition)."""
    return CommitPlace(text, f"{place}.1.")
