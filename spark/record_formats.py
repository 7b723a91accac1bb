"""What is known of records and their positions without Spark: formats, kinds of positions, marks, and places between commits.

A row per format of records, and the names of the kinds of positions. What reads them needs Spark, and stands in
spark.events.record_readers: a registry is read without it. The marks are what connectors and we ourselves mark records with.

A place between two commits is written as positions have it less their epoch. PostgreSQL: its anchor is the last commit before
the place, and every later transaction has a higher anchor, every earlier one a lower one. A transaction that a connector streams
at its start may not know the commit right before it: whatever has the anchor of the place itself is on neither side. Binlog:
commits are whole in it and in its order, so the bytes decide.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EnvelopeRow:
    """One format. Its class, of the same name, stands in spark.events.record_readers.

    `positions`: whose positions its records carry (spark.record_formats); empty where the table has to declare it.
    `is_row`: a record is a row, not a change of one, so that it needs no key. `in_avro`: it needs a schema registry.
    `whole_before`: a change has the row before it, whole. `columns`: the only ones that a record can have; none: any.
    `event_time`: a field of the record may be declared as when the event happened.
    """

    name: str
    positions: str = ""
    is_row: bool = False
    in_avro: bool = False
    whole_before: bool = False
    columns: tuple[str, ...] = ()
    event_time: bool = False


ENVELOPE_ROWS: tuple[EnvelopeRow, ...] = (
    EnvelopeRow("json", positions="topic", is_row=True, event_time=True),
    EnvelopeRow(
        "text",
        positions="topic",
        is_row=True,
        columns=("value", "key", "time", "headers", "partition", "offset"),
    ),
    EnvelopeRow("avro", positions="topic", is_row=True, in_avro=True),
    EnvelopeRow("event-json", positions="topic", is_row=True),
    EnvelopeRow("event-avro", positions="topic", is_row=True, in_avro=True),
    EnvelopeRow("attunity-json", positions="attunity"),
    EnvelopeRow("debezium-json", whole_before=True),
    EnvelopeRow("debezium-json-schema", whole_before=True),
    EnvelopeRow("debezium-unwrapped", positions="topic"),
    EnvelopeRow("debezium-unwrapped-schema", positions="topic"),
    EnvelopeRow("debezium-mongodb", positions="mongodb"),
    EnvelopeRow("debezium-avro", in_avro=True, whole_before=True),
    EnvelopeRow(
        "debezium-unwrapped-avro",
        positions="topic",
        in_avro=True,
    ),
)
ENVELOPES: dict[str, EnvelopeRow] = {row.name: row for row in ENVELOPE_ROWS}
WHOLE_BEFORE = tuple(row.name for row in ENVELOPE_ROWS if row.whole_before)


POSITION_KINDS = ("postgresql", "mysql", "mariadb", "sqlserver", "oracle", "mongodb", "attunity", "topic")
"""The names that a spec and a registry file use; spark.events.record_readers has what reads each of them."""


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
