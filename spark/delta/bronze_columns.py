"""Bronze's columns: name, type, what they hold. Said here alone: the table is made of them, and Dagster shows them."""

from __future__ import annotations

COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("table", "string", "short name of the source table"),
    ("topic", "string", ""),
    ("partition", "int", ""),
    ("offset", "bigint", ""),
    ("timestamp", "timestamp", "Kafka's"),
    ("headers", "array<struct<key:string,value:binary>>", ""),
    ("key", "binary", "raw"),
    ("value", "binary", "raw; null is a tombstone"),
    ("op", "string", "c, u, d, r, t"),
    ("position", "string", "sortable: epoch, source position, offset"),
    ("tx_id", "string", "the source's transaction, as its connector names it"),
    ("source_ts", "timestamp", "when the source committed"),
    ("snapshot", "string", "the connector's word for a row of a snapshot"),
    ("epoch", "int", "which incarnation of the source it was"),
)
NAMES = tuple(name for name, _, _ in COLUMNS)
SCHEMA = ", ".join(f"{name} {type_}" for name, type_, _ in COLUMNS)
