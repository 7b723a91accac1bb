"""Debezium's envelope in Avro, keys and values, with their schemas in a registry."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark.envelopes.avro_records import AvroEnvelope, any_row, decode_avro, decode_once, slot, texts_of, whole_columns
from spark.envelopes.avro_schema import AvroSchema, Wanted
from spark.envelopes.debezium_json import SOURCE, of_source_block
from spark.envelopes.envelope import Narrow, key_columns
from spark.positions.source_connector import Connector
from spark.specs import Column, SilverSpec


class DebeziumAvro(AvroEnvelope):
    """The whole envelope, not unwrapped."""

    name = "debezium-avro"
    form = "a Debezium envelope in Avro with a schema that the registry knows"

    def parse(self, connector: Connector) -> Expression:
        """op and source by schema id, in a field per id."""
        source = {**connector.source, **SOURCE}
        wanted: Wanted = {"op": None, "source": dict.fromkeys(source)}
        return decode_avro(sf.col("value"), self.values, wanted)

    def narrow(self, parsed: Expression, connector: Connector) -> Narrow:
        """The same of each schema."""
        types = {**connector.source, **SOURCE}

        def field(name: str) -> Expression:
            having = [i for i, schema in self.values.items() if name in schema.fields("source")]
            found = [parsed[slot(i)]["source"][name].cast(types[name]) for i in having]
            return sf.coalesce(*found, sf.lit(None).cast(types[name]))

        ops = [parsed[slot(i)]["op"] for i, schema in self.values.items() if "op" in schema.fields()]
        source = sf.struct(*[field(name).alias(name) for name in types])
        return of_source_block(sf.coalesce(*ops, sf.lit(None).cast("string")), source, connector)

    def image_path(self, image: str) -> tuple[str, ...] | None:
        """Under the image's name."""
        return (image,)

    def images(self, events: DataFrame, spec: SilverSpec) -> DataFrame:
        """Rows of texts, whatever the schema they were written with."""
        wanted: Wanted = {"op": None, "before": whole_columns(spec.columns), "after": whole_columns(spec.columns)}
        keys, value = key_columns(spec), sf.col("value")
        ops = [value[slot(i)]["op"] for i in self.values]

        def row(part: str, columns: Sequence[Column]) -> Expression:
            def one(i: int, schema: AvroSchema) -> Expression | None:
                image = value[slot(i)][part]
                found = texts_of(image, schema.fields(part), columns)
                return sf.when(image.isNotNull(), found) if schema.record(part) else None

            return any_row(self.values, one, columns)

        parsed = decode_once(self.with_key(events, keys), "value", decode_avro(value, self.values, wanted, adjust=True))
        return parsed.withColumns(
            {
                "unfit": sf.when(sf.coalesce(*ops, sf.lit(None).cast("string")).isNull(), f"the value is not {self.form}"),
                "row_before": row("before", keys),
                "row_after": row("after", spec.columns),
                "present": sf.lit(None).cast("array<boolean>"),
            }
        )
