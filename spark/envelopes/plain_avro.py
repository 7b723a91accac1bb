"""Plain Avro: every record is a row, its schema in a registry. Otherwise as plain_json has it."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark.envelopes.avro_records import AvroEnvelope, any_row, decoded, slot, texts_of, wanted_columns
from spark.envelopes.envelope import key_columns, texts
from spark.envelopes.plain_json import PlainJson
from spark.specs import SilverSpec


class PlainAvro(AvroEnvelope, PlainJson):
    """Rows as Avro records."""

    name = "avro"
    form = "an Avro record with a schema that the registry knows"

    def images(self, events: DataFrame, spec: SilverSpec) -> DataFrame:
        """The record is the row."""
        keys, value = key_columns(spec), sf.col("value")
        parsed = events.withColumns(
            {"value": decoded(value, self.values, wanted_columns(spec.columns), adjust=True), "row_key": self.row_key(keys)}
        )
        row = any_row(
            self.values,
            lambda i, schema: sf.when(value[slot(i)].isNotNull(), texts_of(value[slot(i)], schema.fields(), spec.columns)),
            spec.columns,
        )
        parsed = parsed.withColumn("row_after", sf.when(sf.col("op") != "d", row))
        return parsed.withColumns(
            {
                "unfit": sf.when((sf.col("op") != "d") & sf.col("row_after").isNull(), f"the value is not {self.form}"),
                "row_before": sf.lit(None).cast(texts(keys)),
                "present": sf.lit(None).cast("array<boolean>"),
            }
        )
