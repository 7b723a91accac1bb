"""Debezium's envelope in Avro, in the wire format of schema registries: a zero byte, the schema's id (4 bytes), the record.

A batch may have been written with several schemas (a column was added, two connectors write). The ids that occur are
collected first, each one's schema is fetched once, and every record is read with its writer's schema narrowed to what
is needed. The leaves become the texts that the JSON converter would have written. Columns that a writer's schema does
not have are absent from its rows, not NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark.envelopes.avro_schema import AvroSchema, Wanted, field_of
from spark.envelopes.debezium_json import SOURCE, of_source_block
from spark.envelopes.envelope import Envelope, Narrow, key_columns
from spark.envelopes.schema_registry import avro_schema
from spark.errors import SpecError
from spark.positions.connector import Connector
from spark.specs import Column, SilverSpec

Schemas = Mapping[int, AvroSchema]
HEAD_BYTES = 5


class DebeziumAvro(Envelope):
    """The whole envelope, keys and values in Avro."""

    name = "debezium-avro"
    form = "a Debezium envelope in Avro with a schema that the registry knows"
    looks_ahead = True

    def __init__(self, values: Schemas | None = None, keys: Schemas | None = None) -> None:
        self.values, self.keys = values or {}, keys or {}

    def prepared(self, records: DataFrame, registry: str | None) -> Envelope:
        """With the schemas that the records were written with."""
        if registry is None:
            raise SpecError(f"envelope {self.name} needs the address of a schema registry (schema_registry)")
        ids = records.agg(*[sf.collect_set(_schema_id(sf.col(name))).alias(name) for name in ("value", "key")]).collect()[0]
        return DebeziumAvro(_fetched(registry, ids["value"]), _fetched(registry, ids["key"]))

    def parsed(self, connector: Connector) -> Expression:
        """op and source by schema id, in a field per id."""
        source = {**connector.source, **SOURCE}
        wanted: Wanted = {"op": None, "source": dict.fromkeys(source)}
        return decoded(sf.col("value"), self.values, wanted)

    def narrow(self, parsed: Expression, connector: Connector) -> Narrow:
        """The same of each schema."""
        types = {**connector.source, **SOURCE}

        def field(name: str) -> Expression:
            having = [i for i, schema in self.values.items() if name in schema.fields("source")]
            found = [parsed[_slot(i)]["source"][name].cast(types[name]) for i in having]
            return sf.coalesce(*found, sf.lit(None).cast(types[name]))

        ops = [parsed[_slot(i)]["op"] for i, schema in self.values.items() if "op" in schema.fields()]
        source = sf.struct(*[field(name).alias(name) for name in types])
        return of_source_block(sf.coalesce(*ops, sf.lit(None).cast("string")), source, connector)

    def images(self, events: DataFrame, spec: SilverSpec) -> DataFrame:
        """Rows of texts, whatever the schema they were written with."""
        wanted: Wanted = {"op": None, "before": _wanted(spec.columns), "after": _wanted(spec.columns)}
        keys, value = key_columns(spec), sf.col("value")
        parsed = events.withColumns(
            {
                "value": decoded(value, self.values, wanted, adjust=True),
                "row_key": decoded(sf.col("key"), self.keys, _wanted(keys), adjust=True),
            }
        )
        ops = [value[_slot(i)]["op"] for i in self.values]

        def row(part: str, columns: Sequence[Column]) -> Expression:
            def one(i: int, schema: AvroSchema) -> Expression:
                image = value[_slot(i)][part]
                return sf.when(image.isNotNull(), texts_of(image, schema.fields(part), columns))

            return _any(self.values, lambda i, schema: one(i, schema) if schema.record(part) else None, columns)

        def key_row(i: int, schema: AvroSchema) -> Expression:
            image = sf.col("row_key")[_slot(i)]
            return sf.when(image.isNotNull(), texts_of(image, schema.fields(), keys))

        return parsed.withColumns(
            {
                "unfit": sf.when(sf.coalesce(*ops, sf.lit(None).cast("string")).isNull(), f"the value is not {self.form}"),
                "row_key": _any(self.keys, key_row, keys),
                "row_before": row("before", keys),
                "row_after": row("after", spec.columns),
                "present": self._present(spec),
            }
        )

    def _present(self, spec: SilverSpec) -> Expression:
        answer = sf.lit(None).cast("array<boolean>")
        for i, schema in self.values.items():
            fields = schema.fields("after")
            has = [field_of(fields, c.name) is not None for c in spec.columns]
            if fields and not all(has):
                here = sf.col("value")[_slot(i)]["after"].isNotNull()
                answer = sf.when(here, sf.array(*[sf.lit(x) for x in has])).otherwise(answer)
        return answer


def decoded(data: Expression, schemas: Schemas, wanted: Wanted, *, adjust: bool = False) -> Expression:
    """A struct of one field per schema, filled where the record was written with it. What is corrupt is all null."""
    from pyspark.sql.avro.functions import from_avro

    found = []
    for i, schema in schemas.items():
        kept = _adjusted(schema, wanted) if adjust else wanted
        options = {"mode": "PERMISSIVE", "avroSchema": schema.narrowed(kept)}
        record = from_avro(sf.substring(data, HEAD_BYTES + 1, 1 << 30), schema.text, options)
        found.append(sf.when(_schema_id(data) == i, record).alias(_slot(i)))
    return sf.struct(*found, sf.lit(None).alias("none"))


def texts_of(image: Expression, fields: Mapping[str, str], columns: Sequence[Column]) -> Expression:
    """The columns of a record as the texts that the JSON converter writes."""
    found = []
    for column in columns:
        name = field_of(fields, column.name)
        leaf = sf.lit(None).cast("string") if name is None else _text(image[name], fields[name])
        found.append(leaf.alias(column.name))
    return sf.struct(*found) if found else sf.struct(sf.lit(1).alias("_"))


def _text(leaf: Expression, kind: str) -> Expression:
    if kind in ("bytes", "fixed"):
        return sf.base64(leaf)
    if kind in ("record", "array", "map", "union"):
        return sf.to_json(leaf, {"ignoreNullFields": "false"})
    return leaf.cast("string")


def _any(schemas: Schemas, row: Callable[[int, AvroSchema], Expression | None], columns: Sequence[Column]) -> Expression:
    rows = [found for i, schema in schemas.items() if (found := row(i, schema)) is not None]
    fields = ", ".join(f"`{c.name.replace('`', '``')}`: string" for c in columns) or "_: int"
    return sf.coalesce(*rows, sf.lit(None).cast(f"struct<{fields}>"))


def _wanted(columns: Sequence[Column]) -> Wanted:
    return {c.name: None for c in columns}


def _adjusted(schema: AvroSchema, wanted: Wanted) -> Wanted:
    """`wanted` under the names that the schema has."""

    def of(path: tuple[str, ...], names: Wanted) -> Wanted:
        fields = schema.fields(*path)
        found = {name: field_of(fields, name) for name in names}
        return {own: None if (below := names[n]) is None else of((*path, n), below) for n, own in found.items() if own}

    return of((), wanted)


def _schema_id(data: Expression) -> Expression:
    framed = (sf.length(data) > HEAD_BYTES) & (sf.hex(sf.substring(data, 1, 1)) == "00")
    return sf.when(framed, sf.conv(sf.hex(sf.substring(data, 2, 4)), 16, 10).cast("bigint"))


def _fetched(registry: str, ids: Sequence[int]) -> Schemas:
    found = {i: avro_schema(registry, i) for i in sorted(ids)}
    return {i: AvroSchema(schema) for i, schema in found.items() if schema is not None}


def _slot(schema_id: int) -> str:
    return f"s{schema_id}"
