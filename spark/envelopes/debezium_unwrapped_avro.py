"""Debezium's events flattened by ExtractNewRecordState, in Avro: what debezium_unwrapped reads, from a registry's schemas."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark.envelopes.avro_records import AvroEnvelope, any_row, decoded, slot, texts_of, wanted_columns
from spark.envelopes.debezium_unwrapped import DebeziumUnwrapped
from spark.envelopes.envelope import CORRUPT, key_columns
from spark.specs import SilverSpec


class DebeziumUnwrappedAvro(AvroEnvelope, DebeziumUnwrapped):
    """Flattened rows, keys and values in Avro."""

    name = "debezium-unwrapped-avro"
    form = "a row in Avro with a schema that the registry knows, as ExtractNewRecordState writes it"

    def marks(self, kinds: Mapping[str, str]) -> Expression:
        """The metadata among the row's fields."""
        value = decoded(sf.col("value"), self.values, dict.fromkeys(kinds))
        fields = []
        for name, kind in kinds.items():
            having = [i for i, schema in self.values.items() if name in schema.fields()]
            found = [value[slot(i)][name].cast(kind) for i in having]
            fields.append(sf.coalesce(*found, sf.lit(None).cast(kind)).alias(name))
        known = sf.array_contains(sf.array(*[value[slot(i)].isNotNull() for i in self.values], sf.lit(False)), sf.lit(True))
        corrupt = sf.when(sf.col("value").isNotNull() & ~known, "unknown schema")
        return sf.struct(*fields, corrupt.alias(CORRUPT))

    def rows(self, events: DataFrame, spec: SilverSpec) -> DataFrame:
        """Rows as texts by whichever schema."""
        keys, value = key_columns(spec), sf.col("value")
        parsed = events.withColumns(
            {
                "value": decoded(value, self.values, wanted_columns(spec.columns), adjust=True),
                "row_key": self.row_key(keys),
                "framed": value.isNotNull(),
            }
        )
        row = any_row(
            self.values,
            lambda i, schema: sf.when(value[slot(i)].isNotNull(), texts_of(value[slot(i)], schema.fields(), spec.columns)),
            spec.columns,
        )
        rows = parsed.withColumn("row", row)
        return rows.withColumns(
            {
                # What Avro cannot read comes as a row of nothing but nulls, which no row of a keyed table is.
                "corrupt": sf.col("framed") & sf.coalesce(*[sf.col("row")[c.name] for c in spec.columns]).isNull(),
                "present": sf.lit(None).cast("array<boolean>"),
            }
        )
