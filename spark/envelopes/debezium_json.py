"""Debezium's JSON envelope (schemas disabled): `{"op": …, "before": …, "after": …, "source": …}`.

A record is a tombstone (null value), an event, or `unknown`: bytes that are no JSON object or carry no op.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType, MapType, StringType, StructField, StructType

from spark.envelopes.envelope import CORRUPT, Narrow, key_columns, texts
from spark.envelopes.json_document import JsonDocument
from spark.positions.source_connector import Connector
from spark.specs import SilverSpec

SOURCE = {"ts_us": "bigint", "ts_ms": "bigint", "snapshot": "string"}
TYPES = {"bigint": LongType(), "string": StringType()}


class DebeziumJson(JsonDocument):
    """The whole envelope, as the JSON converter writes it without schemas."""

    name = "debezium-json"
    form = "a Debezium envelope in JSON"

    def parse(self, connector: Connector) -> Expression:
        """The envelope's op and source, narrowly."""
        source = StructType(fields({**connector.source, **SOURCE}))
        narrowly = StructType([StructField("op", StringType()), StructField("source", source)])
        return sf.from_json(self.text(sf.col("value")), self.wrap(narrowly))

    def narrow(self, parsed: Expression, connector: Connector) -> Narrow:
        """From op and the source block."""
        said = self.payload(parsed)
        return of_source_block(said["op"], said["source"], connector)

    def fields(self, value: Expression, columns: Sequence[str], image: str = "after") -> Expression:
        """The names under `after` or `before`."""
        return sf.json_object_keys(sf.get_json_object(self.text(value), f"{self.root}.{image}"))

    def in_order(self, value: Expression, image: str) -> Expression:
        """The fields under `after` or `before`."""
        wanted = self.wrap(StructType([StructField(image, MapType(StringType(), StringType()))]))
        return self.payload(sf.from_json(self.text(value), wanted))[image]

    def record_key(self, spec: SilverSpec) -> Expression | None:
        """The record's own key."""
        return self._key(spec)

    def _key(self, spec: SilverSpec) -> Expression:
        return self.payload(sf.from_json(self.key_text(sf.col("key")), self.wrap(texts(key_columns(spec)))))

    def images(self, events: DataFrame, spec: SilverSpec) -> DataFrame:
        """Row images under `before` and `after`; the key is the record's own."""
        keys = texts(key_columns(spec))
        rows = StructType([StructField("before", keys), StructField("after", texts(spec.columns))])
        value = document(self.text(sf.col("value")), self.wrap(rows))
        parsed = events.withColumns({"value": value, "row_key": self._key(spec)})
        payload = self.payload(sf.col("value"))
        return parsed.withColumns(
            {
                "unfit": sf.when(is_malformed(sf.col("value")), f"the value is not {self.form}"),
                "row_before": payload["before"],
                "row_after": payload["after"],
                "present": sf.lit(None).cast("array<boolean>"),
            }
        )


def document(value: Expression, schema: StructType) -> Expression:
    """A JSON document's fields, and CORRUPT: its text where it is no object with such fields."""
    strict = StructType([*schema, StructField(CORRUPT, StringType())])
    return sf.from_json(value.cast("string"), strict, {"columnNameOfCorruptRecord": CORRUPT})


def is_malformed(parsed: Expression) -> Expression:
    """Whether a value is missing or could not be parsed."""
    return parsed.isNull() | parsed[CORRUPT].isNotNull()


def fields(types: Mapping[str, str]) -> list[StructField]:
    """Struct fields from names and Spark types."""
    return [StructField(name, TYPES[kind]) for name, kind in types.items()]


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
