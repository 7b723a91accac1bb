"""Debezium's MongoDB events in JSON: documents are JSON texts inside the envelope, `{"after": "{\\"_id\\": …}", …}`.

A document's top-level fields are the row's columns and `_id` is the key, which is read from the record's key: that writes some
types in another way than the document does. MongoDB's typed values (`{"$oid": "…"}`, `{"$numberLong": "5"}`) become their bare
value, and `{"$date": 0}`, in milliseconds, what the column's type makes of it. A column of type json or jsonb has them as they
are written. A field that a full document lacks is NULL.

Ids of a collection may be of several types, and 1 and "1" are two documents. As jsonb they are told apart. As text, strings and
ObjectIds are taken, and numbers are unfit.

Where the event has no full document (capture mode `change_streams`, or the document was deleted before it was looked
up), an update holds only `updateDescription`: the fields set and removed. What it does not name is absent, not NULL. A
change inside a field (`a.b`, a truncated array) cannot be told from the event alone: it is unfit, and
`capture.mode=change_streams_update_full` is the way out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from spark.events.debezium_envelopes import DebeziumJson, document, is_malformed
from spark.events.envelope import key_columns
from spark.specs import Column, SilverSpec
from spark.values.type_rule import SourceType

ID = "_id"
DAY_MILLIS = 86_400_000
YEARS = (-62_135_596_800_000, 253_402_300_799_999)
TEXT, FIELDS, TYPES = StringType(), "map<string,string>", "map<string,variant>"
TRUNCATED = StructType([StructField("field", TEXT)])
DESCRIPTION = StructType(
    [
        StructField("updatedFields", TEXT),
        StructField("removedFields", ArrayType(TEXT)),
        StructField("truncatedArrays", ArrayType(TRUNCATED)),
    ]
)
IMAGES = StructType([StructField("before", TEXT), StructField("after", TEXT), StructField("updateDescription", DESCRIPTION)])
TYPED = r'^\{\s*"\$(?:oid|numberLong|numberInt|numberDouble|numberDecimal|date|uuid|symbol)"\s*:\s*"?([^"{}]*)"?\s*\}$'
DATE = r'^\{\s*"\$date"\s*:\s*(-?\d+)\s*\}$'
WRITTEN = {
    "timestamp without time zone": "yyyy-MM-dd HH:mm:ss.SSS",
    "timestamp with time zone": "yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
    "date": "yyyy-MM-dd",
    "time without time zone": "",
}
_NOT_A_NUMBER = r'^"(NaN|-?Infinity)"$'
_NUMBER = r'^(-?[\d.]+(E-?\d+)?|true|false|\{\s*"\$number\w+"\s*:.*\})$'
UNLIKE_TEXT = "' is no text, and the document of that text would be the same row: declare it jsonb, or by the type of its ids"
TEXTS, FLOATS = ("text", "character varying", "character", "bpchar"), ("double precision", "real", "numeric")
INSIDE = "the update changes the inside of a field, and the event has no full document: capture.mode=change_streams_update_full"


class DebeziumMongodb(DebeziumJson):
    """The envelope of the MongoDB connector."""

    name = "debezium-mongodb"
    form = "a Debezium envelope of MongoDB in JSON"
    written_times = True

    def record_key(self, spec: SilverSpec) -> Expression | None:
        """The key is JSON inside JSON: left to `images`."""
        return None

    def images(self, events: DataFrame, spec: SilverSpec) -> DataFrame:
        """Rows from full documents, or partial ones from what an update names."""
        key = sf.from_json(sf.col("key").cast("string"), self.wrap(StructType([StructField("id", TEXT)])))
        # The key holds the id as JSON inside JSON: `"abc"`, `1004`, `{"$oid": "…"}`.
        written = self.payload(key)["id"]
        id_ = sf.from_json(sf.concat(sf.lit('{"id":'), written, sf.lit("}")), StructType([StructField("id", TEXT)]))
        parsed = events.withColumns(
            {"value": document(sf.col("value"), self.wrap(IMAGES)), "id": id_["id"], "written_id": written}
        )
        payload = self.payload(sf.col("value"))
        change = payload["updateDescription"]
        parsed = parsed.withColumns(
            {
                "unfit": sf.when(is_malformed(sf.col("value")), f"the value is not {self.form}"),
                "whole": sf.from_json(payload["after"], FIELDS),
                "gone": sf.from_json(payload["before"], FIELDS),
                "set": sf.from_json(change["updatedFields"], FIELDS),
                "removed": sf.coalesce(change["removedFields"], sf.array().cast("array<string>")),
                "cut": sf.coalesce(sf.size(change["truncatedArrays"]) > 0, sf.lit(False)),
            }
        )
        partial = sf.col("whole").isNull() & (sf.col("op") == "u") & sf.col("set").isNotNull()
        paths = sf.concat(sf.map_keys(sf.col("set")), sf.col("removed"))
        inside = sf.col("cut") | sf.exists(paths, lambda path: path.contains("."))
        if any(map(_is_json, spec.columns)):
            parsed = parsed.withColumns(
                {"whole_typed": sf.from_json(payload["after"], TYPES), "set_typed": sf.from_json(change["updatedFields"], TYPES)}
            )
        keys, whole, named = key_columns(spec), sf.col("whole"), sf.col("set")
        present = sf.array(*[_present(c, named) for c in spec.columns])
        return parsed.withColumns(
            {
                "unfit": sf.coalesce(sf.col("unfit"), sf.when(partial & inside, INSIDE), *map(_unlike_text, keys)),
                "row_key": _row(keys, _id),
                "row_before": sf.when(sf.col("gone").isNotNull(), _row(keys, lambda c: sf.col("gone")[c.name])),
                "row_after": sf.when(whole.isNotNull(), _row(spec.columns, lambda c: _field("whole", c))).when(
                    partial, _row(spec.columns, lambda c: _field("set", c))
                ),
                "present": sf.when(partial, present),
            }
        )


def _id(column: Column) -> Expression:
    """From the record's key."""
    if column.name != ID:
        return sf.lit(None).cast("string")
    return sf.col("written_id") if _is_json(column) else sf.col("id")


def _unlike_text(column: Column) -> Expression:
    """Why an id cannot be a row of a column of texts; null where it can."""
    source = SourceType.parse(column.source_type)
    if source is None or source.name not in TEXTS:
        return sf.lit(None).cast("string")
    reason = sf.concat(sf.lit(f"{column.name} '"), sf.col("written_id"), sf.lit(UNLIKE_TEXT))
    return sf.when(sf.col("written_id").rlike(_NUMBER), reason)


def _is_json(column: Column) -> bool:
    source = SourceType.parse(column.source_type)
    return source is not None and source.name in ("json", "jsonb") and not source.array


def _field(image: str, column: Column) -> Expression:
    """A top-level field's text; of a column of JSON a text is in quotes, so that "1" is not 1."""
    text = sf.col(image)[column.name]
    if not _is_json(column):
        return text
    typed = sf.col(f"{image}_typed")[column.name]
    return sf.when(sf.schema_of_variant(typed) == "STRING", sf.to_json(typed)).otherwise(text)


def _present(column: Column, named: Expression) -> Expression:
    return sf.lit(column.name == ID) | sf.map_contains_key(named, column.name) | sf.array_contains(sf.col("removed"), column.name)


def _row(columns: Sequence[Column], value: Callable[[Column], Expression]) -> Expression:
    fields = [_value(c, value(c)).alias(c.name) for c in columns]
    return sf.struct(*fields) if fields else sf.struct(sf.lit(1).alias("_"))


def _value(column: Column, text: Expression) -> Expression:
    """A field's text as the column's type reads it."""
    source = SourceType.parse(column.source_type)
    if _is_json(column):
        return text
    bare = _bare(_write_moment(column, text))
    if source is not None and source.name in FLOATS:
        # Spark writes what no JSON has, and the connector does, as a text.
        return sf.regexp_replace(bare, _NOT_A_NUMBER, "$1")
    return bare


def _write_moment(column: Column, text: Expression) -> Expression:
    """A moment's milliseconds as people write it, for a column of such a type; a moment that is no whole day is no date.

    One beyond the years 1 to 9999, and a number, which would be read as days or microseconds, fit no such type.
    """
    source = SourceType.parse(column.source_type)
    form = WRITTEN.get(source.name) if source and not source.array else None
    if source is None or form is None:
        return text
    millis = sf.regexp_extract(text, DATE, 1).try_cast("bigint")
    fits = millis.between(*YEARS) & sf.lit(bool(form))
    if source.name == "date":
        fits &= millis % DAY_MILLIS == 0
    number = sf.when(_bare(text).rlike(r"^-?\d+$"), sf.concat(sf.lit("the number "), _bare(text)))
    return sf.when(fits, sf.date_format(sf.timestamp_millis(millis), form)).otherwise(sf.coalesce(number, text))


def _bare(text: Expression) -> Expression:
    bare = sf.regexp_extract(text, TYPED, 1)
    return sf.when(bare != "", bare).otherwise(text)
