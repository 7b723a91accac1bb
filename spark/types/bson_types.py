"""What each BSON type of a MongoDB document becomes (https://bsonspec.org/spec.html); one that has several becomes `jsonb`.

Measured live by cdc_assets_tests/spark/envelopes/test_mongodb_live.py: Debezium 3.6.1.Final on SecantusDB 0.7.0b3.
"""

from __future__ import annotations

from dataclasses import dataclass

AS_WRITTEN = "jsonb"


@dataclass(frozen=True)
class BsonType:
    """A type by its name in `$type`; the classes that pymongo makes of it; how its column is declared, and why."""

    name: str
    classes: tuple[str, ...]
    column: str
    why: str


_TEXT = "The connector's Extended JSON text."
BSON_TYPES = (
    BsonType("double", ("float",), "double precision", "NaN and infinities too."),
    BsonType("string", ("str",), "text", "Its characters."),
    BsonType("object", ("dict",), AS_WRITTEN, f"{_TEXT} Keys keep their order, dots and dollars."),
    BsonType("array", ("list",), AS_WRITTEN, _TEXT),
    BsonType("binData", ("bytes", "Binary", "UUID"), AS_WRITTEN, f"{_TEXT} It has the subtype."),
    BsonType("objectId", ("ObjectId",), "text", "Its 24 hexadecimal digits."),
    BsonType("bool", ("bool",), "boolean", ""),
    BsonType("date", ("datetime",), "timestamp(3) with time zone", "One beyond the years 1 to 9999 is unfit."),
    BsonType("null", ("NoneType",), "", "NULL in a column of any type, and no column where all are null."),
    BsonType("regex", ("Regex", "Pattern"), AS_WRITTEN, _TEXT),
    BsonType("javascript", ("Code",), AS_WRITTEN, _TEXT),
    BsonType("int", ("int",), "bigint", ""),
    BsonType("timestamp", ("Timestamp",), AS_WRITTEN, _TEXT),
    BsonType("long", ("Int64",), "bigint", ""),
    BsonType("decimal", ("Decimal128",), "numeric", "Text with all digits."),
    BsonType("minKey", ("MinKey",), AS_WRITTEN, _TEXT),
    BsonType("maxKey", ("MaxKey",), AS_WRITTEN, _TEXT),
)
COLUMNS = {name: each.column for each in BSON_TYPES for name in each.classes if each.column}
"""By the class of a value."""
