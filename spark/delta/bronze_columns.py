"""Bronze's columns: name, type, what they hold. Said here alone: the table is made of them, and Dagster shows them."""

from __future__ import annotations

COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("table", "string", "the table's short name: this asset is the rows of one table"),
    ("topic", "string", "the lake's topic that the record was read from"),
    ("partition", "int", "its partition"),
    ("offset", "bigint", "its offset in the partition"),
    ("timestamp", "timestamp", "when Kafka was given the record"),
    ("headers", "array<struct<key:string,value:binary>>", "the record's headers, as they are in Kafka"),
    ("key", "binary", "the record's key, as it is in Kafka"),
    ("value", "binary", "the record's value, as it is in Kafka; null is a tombstone"),
    ("op", "string", "c create, u update, d delete, r read by a snapshot, t truncate"),
    ("position", "string", "orders the events of a key as text: epoch, place in the source's log, offset"),
    ("tx_id", "string", "the source's transaction, as its connector names it"),
    ("source_ts", "timestamp", "when the source committed"),
    ("snapshot", "string", "the connector's word for a row of a snapshot"),
    ("epoch", "int", "a number that rises when the source's positions or the topic begin again"),
)
NAMES = tuple(name for name, _, _ in COLUMNS)
SCHEMA = ", ".join(f"{name} {type_}" for name, type_, _ in COLUMNS)
