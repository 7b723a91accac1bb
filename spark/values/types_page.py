"""docs/reference/types.md, written from the rules: `python -m spark.values.types_page > docs/reference/types.md`."""

from __future__ import annotations

from spark.specs import Column
from spark.values.lake_types import FAMILIES, lake_type
from spark.values.mariadb_types import FAMILIES as MARIADB
from spark.values.other_databases import AS_WRITTEN, BSON_TYPES, BsonType
from spark.values.type_rule import Rule

HEAD = """\
# Column types

What each PostgreSQL type becomes in silver, and why. This page is generated from `spark/values/`,
one module per family: run `python -m spark.values.types_page`. Every type was measured live by
`cdc_assets_tests/spark/values/test_types_live.py` (Debezium 3.7.0.Final, PostgreSQL 18), in the
snapshot and as a change. PostgreSQL is the judge of whether silver's value is its own.

* **exact**: silver has the database's value. A value that the lake type cannot hold makes its
  record *unfit*. It is reported with topic, partition, offset, column and value. It never becomes
  NULL, 0 or a rounded number.
* **accept**: Debezium changes some values so that nobody can tell any more. The column is refused
  until the table's `accept_inexact` names it.
  Where the column is NOT NULL, an array that is *sent as NULL* stops the connector. Every table of
  the source then stands still. This keeps NULL elements out:
  `CHECK (array_position(c, NULL) IS NULL)`. As part of a key such a type is refused in any case.
* **refused**: no lake type. Name the column in `except_column_list`, or capture a cast of it.

This is how our own connectors write values. If a source's connector writes them in another way, say
so (`values:`). What such a mode loses is refused by name too:

| | also read | what it costs |
|---|---|---|
| `decimal` | `precise` | NaN and infinities are sent as NULL: accept. More than 38 digits, or no declared size: refused |
| | `double` | More than 15 digits, no declared size, `money`: refused |
| `temporal` | `adaptive`, `adaptive_time_microseconds` | nothing |
| | `connect` | More than three fraction digits: refused |
| | `nanoseconds` | Timestamps outside 1677 to 2262 are sent as NULL: accept |
| | `isostring` | 24:00 is sent as 00:00, so both are unfit, unless accepted |
| `binary` | `base64`, `base64-url-safe`, `hex` | An unchanged TOASTed `bytea` is sent as NULL |
| `interval` | `numeric` | Months are counted as 30.4375 days: refused |
| `hstore` | `map` | nothing |
| `unknown` | `omit` | Types that come as bytes are left out, and `name` as NULL: refused |

A domain is its base type. An UPDATE does not send a TOASTed value that it has not changed:
`spark/silver/typed_changes.py` says how it is read.

Types of MySQL, SQL Server, Oracle and MongoDB are translated into these
([databases.md](databases.md)). What is lost on the way is refused, or accepted, in the same way.
"""
MARIADB_HEAD = """
# MariaDB

Measured live (Debezium 3.5.0.Final, MariaDB 10.11, server time zone +05:30), in the snapshot and as
a change. MariaDB's own text is the judge. Types are written as in `information_schema`. `zerofill`
pads what a client shows and changes no number. A type that is not listed is refused.

| | ours | also read | what it costs |
|---|---|---|---|
| `decimal` | `string` | `precise` | More than 38 digits: refused |
| | | `double` | More than 15 digits: refused |
| `temporal` | `adaptive_time_microseconds` | `microseconds`, `nanoseconds`, `isostring` | `time`: refused |
| | | `connect` | `time`, and more than three fraction digits: refused |
| `unsigned` | `precise` | `long` | nothing |
| `binary` | `bytes` | `base64`, `base64-url-safe`, `hex` | nothing |
"""


MONGODB_HEAD = f"""
# MongoDB

Measured live (Debezium 3.6.1.Final, SecantusDB 0.7.0b3), in the snapshot and as a change, by
`cdc_assets_tests/spark/events/test_mongodb_live.py`. pymongo is the judge. Types are named as
`$type` does. A field with values of several types is `{AS_WRITTEN}`. A column may be declared
otherwise: [MongoDB's fields](databases.md#mongodbs-fields).

| MongoDB | in the registry | Delta | Why |
|---|---|---|---|
"""


def markdown() -> str:
    """The reference page of types: each family with its rules."""
    postgresql = "".join(_family(name, rules, "PostgreSQL") for name, rules in FAMILIES)
    return (
        HEAD
        + postgresql
        + MARIADB_HEAD
        + "".join(_family(f"MariaDB: {name.lower()}", rules, "MariaDB") for name, rules in MARIADB)
        + MONGODB_HEAD
        + "".join(_bson_row(bson_type) for bson_type in BSON_TYPES)
    )


def _bson_row(bson: BsonType) -> str:
    if not bson.column:
        return f"| `{bson.name}` | | | {bson.why} |\n"
    return f"| `{bson.name}` | `{bson.column}` | {lake_type(Column('field', bson.column, True)).name} | {bson.why} |\n"


def _family(name: str, rules: tuple[Rule, ...], database: str) -> str:
    rows = "".join(_row(rule) for rule in rules)
    return f"\n## {name}\n\n| {database} | Delta | | Why |\n|---|---|---|---|\n{rows}"


def _row(rule: Rule) -> str:
    types = ", ".join(f"`{name}`" for name in rule.types)
    if rule.loses:
        return f"| {types} | {rule.lake} | accept | {rule.why} Lost: {rule.loses}. |\n"
    if not rule.lake:
        return f"| {types} | | refused | {rule.why[0].upper()}{rule.why[1:]}. |\n"
    return f"| {types} | {rule.lake} | exact | {rule.why} |\n"


if __name__ == "__main__":
    print(markdown(), end="")
