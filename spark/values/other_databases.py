"""Columns of other databases than PostgreSQL and MariaDB: what their catalogue says besides a type, and what BSON becomes.

Their types are written as PostgreSQL would write them. A `datetime2(7)` of SQL Server is `timestamp(6) without time zone`, of
kind `ticks`: its seventh digit has no place in the lake. These words are kept in schema ledgers. What is told of them stands here
too, so that it can change.

A BSON type of a MongoDB document (https://bsonspec.org/spec.html) that has several forms becomes `jsonb`. Measured live by
test_mongodb_live.py: Debezium 3.6.1.Final on SecantusDB 0.7.0b3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TICKS, ZONE, MOMENT_TICKS, ZONE_TICKS, SIX_DIGITS = "ticks", "zone", "moment_ticks", "zone_ticks", "six_digits"
UNREAD, LOBS = "unread", "lobs"
_BEYOND = "digits of a second beyond the sixth, for which Delta has no place"
_ZONE = "the offset from UTC, since Delta keeps the moment alone"

LOSES: Mapping[str, str] = {
    TICKS: _BEYOND,
    ZONE: _ZONE,
    MOMENT_TICKS: _BEYOND,
    ZONE_TICKS: f"{_ZONE}; {_BEYOND}",
    SIX_DIGITS: "what a snapshot reads beyond six digits (the server writes no more of a float as text)",
}
"""Kinds whose columns are refused until `accept_inexact` names them."""
REFUSED: Mapping[str, str] = {
    UNREAD: "Debezium does not send it, or what it sends for it is not documented",
    LOBS: "the connector reads no CLOB, BLOB or XML unless the source declares database.lobs",
}
"""Kinds whose columns have no exact form."""


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
COLUMNS = {name: bson_type.column for bson_type in BSON_TYPES for name in bson_type.classes if bson_type.column}
"""By the class of a value."""
