"""Debezium's JSON envelope (schemas disabled).

A record is a tombstone (null value), an event, or `unknown`: bytes that are no JSON object or carry no op.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from spark.envelopes.envelope import Envelope, Narrow, key_columns, texts
from spark.positions.connector import Connector
from spark.specs import SilverSpec

CORRUPT = "cdc_corrupt"
SOURCE = {"ts_us": "bigint", "ts_ms": "bigint", "snapshot": "string"}


class DebeziumJson(Envelope):
    """`{"op": …, "before": …, "after": …, "source": …}`."""

    name = "debezium-json"
    form = "a Debezium envelope in JSON"

    def parsed(self, connector: Connector) -> Expression:
        """The envelope's op and source, narrowly."""
        return sf.from_json(sf.col("value").cast("string"), narrow_schema(connector))

    def narrow(self, parsed: Expression, connector: Connector) -> Narrow:
        """From op and the source block."""
        return of_source_block(parsed["op"], parsed["source"], connector)

    def images(self, events: DataFrame, spec: SilverSpec) -> DataFrame:
        """Row images under `before` and `after`; the key is the record's own."""
        keys = texts(key_columns(spec))
        envelope = StructType(
            [StructField("before", keys), StructField("after", texts(spec.columns)), StructField(CORRUPT, StringType())]
        )
        value = sf.from_json(sf.col("value").cast("string"), envelope, {"columnNameOfCorruptRecord": CORRUPT})
        parsed = events.withColumns({"value": value, "row_key": sf.from_json(sf.col("key").cast("string"), keys)})
        return parsed.withColumns(
            {
                "malformed": sf.col("value").isNull() | sf.col("value")[CORRUPT].isNotNull(),
                "row_before": sf.col("value")["before"],
                "row_after": sf.col("value")["after"],
                "present": sf.lit(None).cast("array<boolean>"),
            }
        )


def narrow_schema(connector: Connector) -> str:
    """The DDL of an envelope's op and of what of its source block is read."""
    fields = ", ".join(f"{name}: {kind}" for name, kind in {**connector.source, **SOURCE}.items())
    return f"op string, source struct<{fields}>"


def of_source_block(op: Expression, source: Expression, connector: Connector) -> Narrow:
    """What the source block says; the time is when the source committed, microseconds where the connector gives them."""
    micros = sf.coalesce(source["ts_us"], source["ts_ms"] * 1000)
    return Narrow(
        op=op,
        source_ts=sf.timestamp_micros(micros),
        tx_id=connector.tx_id(lambda name: source[name]),
        snapshot=source["snapshot"],
        place=connector.place(lambda name: source[name], op),
    )
