"""Debezium's events flattened by ExtractNewRecordState, in Avro: what debezium_unwrapped reads, from a registry's schemas."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark.envelopes.avro_records import AvroEnvelope, decode_avro, decode_once, slot, whole_columns
from spark.envelopes.debezium_unwrapped import DebeziumUnwrapped
from spark.envelopes.envelope import key_columns
from spark.specs import SilverSpec


class DebeziumUnwrappedAvro(AvroEnvelope, DebeziumUnwrapped):
    """Flattened rows, keys and values in Avro."""

    name = "debezium-unwrapped-avro"
    form = "a row in Avro with a schema that the registry knows, as ExtractNewRecordState writes it"

    def marks(self, kinds: Mapping[str, str]) -> Expression:
        """The metadata by schema id, in a field per id."""
        return decode_avro(sf.col("value"), self.values, dict.fromkeys(kinds))

    def mark(self, marks: Expression, name: str, kind: str) -> Expression:
        """The same of each schema that has it."""
        having = [i for i, schema in self.values.items() if name in schema.fields()]
        return sf.coalesce(*[marks[slot(i)][name].cast(kind) for i in having], sf.lit(None).cast(kind))

    def is_row(self, marks: Expression) -> Expression:
        """Whether it was written with a schema that the registry knows."""
        return sf.array_contains(sf.array(*[marks[slot(i)].isNotNull() for i in self.values], sf.lit(False)), sf.lit(True))

    def rows(self, events: DataFrame, spec: SilverSpec) -> DataFrame:
        """Rows as texts by whichever schema."""
        keys, value = key_columns(spec), sf.col("value")
        parsed = self.with_key(events, keys).withColumn("framed", value.isNotNull())
        parsed = decode_once(parsed, "value", decode_avro(value, self.values, whole_columns(spec.columns), adjust=True))
        row = self.row_of(value, self.values, spec.columns)
        rows = parsed.withColumn("row", row)
        return rows.withColumns(
            {
                # What Avro cannot read comes as a row of nothing but nulls, which no row of a keyed table is.
                "corrupt": sf.col("framed") & sf.coalesce(*[sf.col("row")[c.name] for c in spec.columns]).isNull(),
                "present": sf.lit(None).cast("array<boolean>"),
            }
        )
