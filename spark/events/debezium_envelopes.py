"""Debezium's envelopes but MongoDB's: in JSON, with the schema in every record, in Avro; and flattened by ExtractNewRecordState.

An envelope is `{"op": …, "before": …, "after": …, "source": …}`. A record is a tombstone (null value), an event, or `unknown`:
bytes that are no JSON object or carry no op. In Avro keys and values have their schemas in a registry.

Flattened (unwrapped), an event is the row itself, with metadata beside it or in headers. What `add.fields` and `add.headers` give
under their usual prefix is read wherever it is: `__op`, `__deleted`, and of the source block either `__lsn` or `__source_lsn`.
Without `__op` an event is an update, which the fold takes for an insert where the row is new; a row of a snapshot is known by
`__snapshot`. Deletes need `delete.tombstone.handling.mode=rewrite`: then they are rows with `__deleted`, and carry a position. In
the other modes all that is left of a delete is a null value, which has no position; it counts as the delete for connector
`topic` only, where positions are offsets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType, MapType, StringType, StructField, StructType

from spark.events.avro_records import AvroEnvelope, any_row, decode_avro, decode_once, slot, texts_of, whole_columns
from spark.events.avro_schemas import AvroSchema, Wanted
from spark.events.envelope import CORRUPT, Narrow, key_columns, texts
from spark.events.json_records import JsonDocument, UnderPayload
from spark.events.positions import Connector
from spark.events.source_positions import TOPIC
from spark.specs import Column, SilverSpec

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
        payload = self.payload(parsed)
        return of_source_block(payload["op"], payload["source"], connector)

    def fields(self, value: Expression, columns: Sequence[str], image: str = "after") -> Expression:
        """The names under `after` or `before`."""
        return sf.json_object_keys(sf.get_json_object(self.text(value), f"{self.root}.{image}"))

    def in_order(self, value: Expression, image: str) -> Expression:
        """The fields under `after` or `before`."""
        image_type = self.wrap(StructType([StructField(image, MapType(StringType(), StringType()))]))
        return self.payload(sf.from_json(self.text(value), image_type))[image]

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


class DebeziumJsonSchema(UnderPayload, DebeziumJson):
    """As the JSON converter writes it with `schemas.enable=true`."""

    name = "debezium-json-schema"
    form = "a Debezium envelope in JSON with its schema"


class DebeziumAvro(AvroEnvelope):
    """The whole envelope, not unwrapped."""

    name = "debezium-avro"
    form = "a Debezium envelope in Avro with a schema that the registry knows"

    def parse(self, connector: Connector) -> Expression:
        """op and source by schema id, in a field per id."""
        source = {**connector.source, **SOURCE}
        narrow_fields: Wanted = {"op": None, "source": dict.fromkeys(source)}
        return decode_avro(sf.col("value"), self.values, narrow_fields)

    def narrow(self, parsed: Expression, connector: Connector) -> Narrow:
        """The same of each schema."""
        types = {**connector.source, **SOURCE}

        def field(name: str) -> Expression:
            having = [i for i, schema in self.values.items() if name in schema.fields("source")]
            values = [parsed[slot(i)]["source"][name].cast(types[name]) for i in having]
            return sf.coalesce(*values, sf.lit(None).cast(types[name]))

        ops = [parsed[slot(i)]["op"] for i, schema in self.values.items() if "op" in schema.fields()]
        source = sf.struct(*[field(name).alias(name) for name in types])
        return of_source_block(sf.coalesce(*ops, sf.lit(None).cast("string")), source, connector)

    def image_path(self, image: str) -> tuple[str, ...] | None:
        """Under the image's name."""
        return (image,)

    def images(self, events: DataFrame, spec: SilverSpec) -> DataFrame:
        """Rows of texts, whatever the schema they were written with."""
        row_fields: Wanted = {"op": None, "before": whole_columns(spec.columns), "after": whole_columns(spec.columns)}
        keys, value = key_columns(spec), sf.col("value")
        ops = [value[slot(i)]["op"] for i in self.values]

        def row(image_name: str, columns: Sequence[Column]) -> Expression:
            def one(i: int, schema: AvroSchema) -> Expression | None:
                image = value[slot(i)][image_name]
                texts = texts_of(image, schema.fields(image_name), columns)
                return sf.when(image.isNotNull(), texts) if schema.record(image_name) else None

            return any_row(self.values, one, columns)

        parsed = decode_once(self.with_key(events, keys), "value", decode_avro(value, self.values, row_fields, adjust=True))
        return parsed.withColumns(
            {
                "unfit": sf.when(sf.coalesce(*ops, sf.lit(None).cast("string")).isNull(), f"the value is not {self.form}"),
                "row_before": row("before", keys),
                "row_after": row("after", spec.columns),
                "present": sf.lit(None).cast("array<boolean>"),
            }
        )


PREFIX = "__"
SNAPSHOT_MARKS = ("true", "first", "first_in_data_collection", "last_in_data_collection", "last", "incremental")


class DebeziumUnwrapped(JsonDocument):
    """Flattened rows as the JSON converter writes them without schemas."""

    name = "debezium-unwrapped"
    form = "a row in JSON, as ExtractNewRecordState writes it"

    def fields(self, value: Expression, columns: Sequence[str], image: str = "after") -> Expression:
        """The names in the row."""
        return sf.json_object_keys(sf.get_json_object(self.text(value), self.root))

    def tombstones_delete(self, connector: Connector) -> bool:
        """Where positions are offsets; elsewhere a delete must be rewritten to have one."""
        return connector is TOPIC

    def marks(self, kinds: Mapping[str, str]) -> Expression:
        """A document of the metadata among the row's fields, in these types."""
        return document(self.text(sf.col("value")), self.wrap(StructType([StructField(n, TYPES[k]) for n, k in kinds.items()])))

    def mark(self, marks: Expression, name: str, kind: str) -> Expression:
        """One of the metadata; null where the row has none of that name."""
        return self.payload(marks)[name]

    def is_row(self, marks: Expression) -> Expression:
        """Whether the value could be read."""
        return ~is_malformed(marks)

    def rows(self, events: DataFrame, spec: SilverSpec) -> DataFrame:
        """With `row` (all columns), `row_key`, `present`, and `corrupt boolean`."""
        keys = texts(key_columns(spec))
        key = sf.from_json(self.key_text(sf.col("key")), self.wrap(keys))
        parsed = events.withColumns(
            {"value": document(self.text(sf.col("value")), self.wrap(texts(spec.columns))), "row_key": key}
        )
        return parsed.withColumns(
            {
                "row": self.payload(sf.col("value")),
                "row_key": self.payload(sf.col("row_key")),
                "corrupt": sf.col("value")[CORRUPT].isNotNull(),
                "present": sf.lit(None).cast("array<boolean>"),
            }
        )

    def parse(self, connector: Connector) -> Expression:
        """The metadata among the row's fields (`fields`) and in headers (`headers`)."""
        named = {f"{PREFIX}{block}{n}": k for n, k in {**connector.source, **SOURCE}.items() for block in ("source_", "")}
        fields = self.marks({**named, f"{PREFIX}op": "string", f"{PREFIX}deleted": "string"})
        headers = [_header(name).try_cast(kind).alias(name) for name, kind in named.items()]
        own = sf.struct(*headers, _header(f"{PREFIX}op").alias(f"{PREFIX}op"))
        return sf.struct(fields.alias("fields"), own.alias("headers"), sf.col("value").isNull().alias("tombstone"))

    def narrow(self, parsed: Expression, connector: Connector) -> Narrow:
        """From the metadata, wherever it is."""
        marks, headers, types = parsed["fields"], parsed["headers"], {**connector.source, **SOURCE}

        def field(name: str) -> Expression:
            places = [f"{PREFIX}source_{name}"] + ([] if name in ("ts_ms", "ts_us") else [f"{PREFIX}{name}"])
            return sf.coalesce(*[x for p in places for x in (self.mark(marks, p, types[name]), headers[p])])

        source = sf.struct(*[field(name).alias(name) for name in types])
        op_text = sf.coalesce(self.mark(marks, f"{PREFIX}op", "string"), headers[f"{PREFIX}op"])
        op = (
            sf.when(parsed["tombstone"], sf.lit("d") if self.tombstones_delete(connector) else sf.lit(None))
            .when(~self.is_row(marks), sf.lit(None))
            .when(self.mark(marks, f"{PREFIX}deleted", "string") == "true", "d")
            .when(op_text.isNotNull(), op_text)
            .when(field("snapshot").isin(*SNAPSHOT_MARKS), "r")
            .otherwise("u")
        )
        return of_source_block(op, source, connector)

    def images(self, events: DataFrame, spec: SilverSpec) -> DataFrame:
        """The row is the after-image, or of a delete the before-image; the key is the record's own."""
        row, gone = sf.col("row"), sf.col("op") == "d"
        before = [row[c.name].alias(c.name) for c in key_columns(spec)] or [sf.lit(1).alias("_")]
        return self.rows(events, spec).withColumns(
            {
                "unfit": sf.when(sf.col("corrupt"), f"the value is not {self.form}"),
                "row_before": sf.when(gone & row.isNotNull(), sf.struct(*before)),
                "row_after": sf.when(~gone, row),
            }
        )


class DebeziumUnwrappedSchema(UnderPayload, DebeziumUnwrapped):
    """Flattened rows under `payload`, as the JSON converter writes them with `schemas.enable=true`."""

    name = "debezium-unwrapped-schema"
    form = "a row in JSON with its schema, as ExtractNewRecordState writes it"


def _header(name: str) -> Expression:
    """A header's text, as Connect's simple converter (bare) or the JSON converter (quoted) writes it."""
    newest = sf.try_element_at(sf.filter(sf.col("headers"), lambda header: header["key"] == name), sf.lit(-1))
    return sf.regexp_replace(newest["value"].cast("string"), '^"|"$', "")


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
