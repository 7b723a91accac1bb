"""Records in Avro, in the wire format of schema registries: a zero byte, the schema's id (4 bytes), the record.

A batch may have been written with several schemas (a column was added, two connectors write). The ids that occur are
collected first, each one's schema is fetched once, and every record is read with its writer's schema narrowed to what
is needed. The leaves become the texts that Debezium's JSON has with the modes of our own connectors: times in
microseconds, decimals as digits. More than microseconds is no number then, so that it does not fit. A column that a
writer's schema did not have yet is NULL, as it is where such a row comes in JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as sf

from spark.errors import JobRefusedError
from spark.events.avro_schemas import AvroSchema, Wanted, avro_schema, field_of
from spark.events.envelope import Envelope
from spark.specs import Column
from spark.table.identifiers import quote
from spark.table.topic_commits import SchemaIds

Schemas = Mapping[int, AvroSchema]
HEAD_BYTES = 5
MAGIC = b"\0"
PARTS = ("key", "value")


class AvroEnvelope(Envelope):
    """An envelope whose values, and keys if they are framed so, are in Avro."""

    def __init__(self, values: Schemas | None = None, keys: Schemas | None = None) -> None:
        self.values, self.keys = values or {}, keys or {}

    framed = True
    in_json = False

    def prepare(self, records: DataFrame, registry: str | None, known: SchemaIds | None = None) -> Envelope:
        """With the schemas that the records were written with."""
        if registry is None:
            raise JobRefusedError(f"envelope {self.name} needs the address of a schema registry (schema_registry)")
        if known is None:
            known = schema_ids([records.agg(*heads()).collect()[0]])
        return type(self)(_fetch_schemas(registry, known["value"]), _fetch_schemas(registry, known["key"]))

    def fields(self, value: Expression, columns: Sequence[str], image: str = "after") -> Expression:
        """Those of the schema that it was written with: nothing is decoded for that."""
        names = sf.lit(None).cast("array<string>")
        path = self.image_path(image)
        if path is None:
            return names
        for i, schema in self.values.items():
            own = schema.fields(*path)
            own_names = [name for name in columns if field_of(own, name) is not None]
            names = sf.when(_is_of(value, i), sf.array(*map(sf.lit, own_names)).cast("array<string>")).otherwise(names)
        return names

    def image_path(self, image: str) -> tuple[str, ...] | None:
        """Where in a record that image is; None where a row is not made of the fields of one record."""
        return ()

    def with_key(self, events: DataFrame, columns: Sequence[Column]) -> DataFrame:
        """With `row_key`: the key columns of the record's own key."""
        events = decode_once(events, "row_key", decode_avro(sf.col("key"), self.keys, whole_columns(columns), adjust=True))
        return events.withColumn("row_key", self.row_of(sf.col("row_key"), self.keys, columns))

    def row_of(self, record: Expression, schemas: Schemas, columns: Sequence[Column]) -> Expression:
        """A decoded record as a row, whichever schema it was written with."""

        def one(i: int, schema: AvroSchema) -> Expression:
            return sf.when(record[slot(i)].isNotNull(), texts_of(record[slot(i)], schema.fields(), columns))

        return any_row(schemas, one, columns)


def decode_avro(data: Expression, schemas: Schemas, wanted: Wanted | None, *, adjust: bool = False) -> Expression:
    """A struct of one field per schema, filled where the record was written with it. What is corrupt is all null."""
    from pyspark.sql.avro.functions import from_avro

    records = []
    for i, schema in schemas.items():
        kept = _adjust_names(schema, wanted) if adjust and wanted is not None else wanted
        options = {"mode": "PERMISSIVE", "avroSchema": schema.reader_schema(kept)}
        record = from_avro(sf.substring(data, HEAD_BYTES + 1, 1 << 30), schema.text, options)
        records.append(sf.when(_is_of(data, i), record).alias(slot(i)))
    return sf.struct(*records, sf.lit(None).alias("none"))


def decode_once(events: DataFrame, name: str, decoded: Expression) -> DataFrame:
    """The events with the decoded record in the column of this name, which whoever names it does not decode again.

    Spark moves what a join or a filter compares below the projection that computes it, and copies the whole expression to
    each place. `from_avro` is dear to copy: each copy reads Hadoop's configuration and parses its schemas, while Spark plans
    and in each task (ADR 101). What a generator gives is a column like one of a file: nothing is moved into it.
    """
    return events.withColumn(name, sf.explode(sf.array(decoded)))


def texts_of(image: Expression, fields: Mapping[str, str], columns: Sequence[Column]) -> Expression:
    """The columns of a record as texts that the type stage reads: times in microseconds, decimals as digits."""
    texts = []
    for column in columns:
        name = field_of(fields, column.name)
        leaf = sf.lit(None).cast("string") if name is None else _text(image[name], fields[name])
        texts.append(leaf.alias(column.name))
    return sf.struct(*texts) if texts else sf.struct(sf.lit(1).alias("_"))


def _text(leaf: Expression, kind: str) -> Expression:
    if kind in ("bytes", "fixed"):
        return sf.base64(leaf)
    if kind in ("record", "array", "map", "union"):
        return sf.to_json(leaf, {"ignoreNullFields": "false"})
    if kind == "millis":
        leaf = leaf.cast("bigint") * 1000
    if kind == "nanos":
        return sf.when(leaf % 1000 == 0, sf.floor(leaf / 1000).cast("string")).otherwise(sf.concat(leaf, sf.lit("ns")))
    return leaf.cast("string")


def any_row(schemas: Schemas, row: Callable[[int, AvroSchema], Expression | None], columns: Sequence[Column]) -> Expression:
    """The row by whichever schema; null where by none."""
    rows = [own_row for i, schema in schemas.items() if (own_row := row(i, schema)) is not None]
    fields = ", ".join(f"{quote(c.name)}: string" for c in columns) or "_: int"
    return sf.coalesce(*rows, sf.lit(None).cast(f"struct<{fields}>"))


def whole_columns(columns: Sequence[Column]) -> Wanted:
    """The columns, with all that is in them."""
    return {c.name: None for c in columns}


def _adjust_names(schema: AvroSchema, wanted: Wanted) -> Wanted:
    """`wanted` under the names that the schema has."""

    def of(path: tuple[str, ...], names: Wanted) -> Wanted:
        fields = schema.fields(*path)
        own_names = {name: field_of(fields, name) for name in names}
        return {own: None if (below := names[n]) is None else of((*path, n), below) for n, own in own_names.items() if own}

    return of((), wanted)


def _head(data: Expression) -> Expression:
    """Magic byte and schema id; null where there is nothing behind them. As bytes: a number would be made by way of text."""
    return sf.when(sf.length(data) > HEAD_BYTES, sf.substring(data, 1, HEAD_BYTES))


def _is_of(data: Expression, schema_id: int) -> Expression:
    """Whether it was written with that schema."""
    return _head(data) == sf.lit(MAGIC + schema_id.to_bytes(HEAD_BYTES - 1, "big"))


def heads() -> list[Expression]:
    """To be aggregated: the heads that occur."""
    return [sf.collect_set(_head(sf.col(column))).alias(f"{column}_heads") for column in PARTS]


def schema_ids(rows: Sequence[Row]) -> SchemaIds:
    """The ids in rows that hold `heads`."""
    seen = {column: {bytes(head) for row in rows for head in row[f"{column}_heads"]} for column in PARTS}
    return {
        column: sorted(int.from_bytes(head[1:], "big") for head in heads_seen if head.startswith(MAGIC))
        for column, heads_seen in seen.items()
    }


def _fetch_schemas(registry: str, ids: Sequence[int]) -> Schemas:
    schemas = {i: avro_schema(registry, i) for i in ids}
    return {i: AvroSchema(schema) for i, schema in schemas.items() if schema is not None}


def slot(schema_id: int) -> str:
    """The field of what was written with a schema."""
    return f"s{schema_id}"
