"""Plain Avro: every record is a row, its schema in a registry. Otherwise as plain_json has it."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark.envelopes.avro_records import AvroEnvelope, decode_avro, decode_once, whole_columns
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
        decoded = decode_avro(value, self.values, whole_columns(spec.columns), adjust=True)
        parsed = decode_once(self.with_key(events, keys), "value", decoded)
        row = self.row_of(value, self.values, spec.columns)
        parsed = parsed.withColumn("row_after", sf.when(sf.col("op") != "d", row))
        return parsed.withColumns(
            {
                "unfit": sf.when((sf.col("op") != "d") & sf.col("row_after").isNull(), f"the value is not {self.form}"),
                "row_before": sf.lit(None).cast(texts(keys)),
                "present": sf.lit(None).cast("array<boolean>"),
            }
        )
