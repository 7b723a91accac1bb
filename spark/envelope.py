"""Debezium's JSON envelope (schemas disabled), read narrowly: only what every reader of bronze needs.

A record is a tombstone (null value), an event, or `unknown`: bytes that are no JSON object or carry no op. Nothing is
dropped here; unknown records are kept with their bytes and get a null op and position.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf

NARROW = "op string, source struct<lsn: bigint, sequence: string, txId: string, ts_us: bigint, ts_ms: bigint, snapshot: string>"
TOMBSTONE, UNKNOWN = "tombstone", "unknown"


def narrow(value: Column) -> Column:
    """The envelope's op and source as a struct, all null where they cannot be read."""
    return sf.from_json(value.cast("string"), NARROW)


def source_time(envelope: Column) -> Column:
    """When the source committed the change; microseconds where the connector gives them."""
    micros = sf.coalesce(envelope["source"]["ts_us"], envelope["source"]["ts_ms"] * 1000)
    return sf.timestamp_micros(micros)


def kind(op: Column, value: Column) -> Column:
    """How a record is counted: by its op letter, as a tombstone, or as unknown."""
    return sf.when(value.isNull(), TOMBSTONE).otherwise(sf.coalesce(op, sf.lit(UNKNOWN)))
