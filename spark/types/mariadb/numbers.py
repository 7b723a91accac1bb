"""Whole and broken numbers, signed and unsigned. ZEROFILL changes what a client shows, not the number."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import functions as sf

from spark.types.numbers import UNSIGNED_BIGINT, numeric, unsigned_bigint
from spark.types.rule import LakeType, Rule, cast

RULES = (
    Rule(("tinyint",), "smallint", "The same values, those of tinyint(1) and BOOLEAN too.", cast("smallint")),
    Rule(("tinyint unsigned",), "smallint", "0 to 255.", cast("smallint")),
    Rule(("smallint",), "smallint", "The same range.", cast("smallint")),
    Rule(("smallint unsigned",), "int", "0 to 65535 do not fit a smallint.", cast("int")),
    Rule(("mediumint", "mediumint unsigned"), "int", "Three bytes fit an int, unsigned too.", cast("int")),
    Rule(("int",), "int", "The same range.", cast("int")),
    Rule(("int unsigned",), "bigint", "0 to 4294967295 do not fit an int.", cast("bigint")),
    Rule(("bigint",), "bigint", "The same range.", cast("bigint")),
    Rule(
        ("bigint unsigned",),
        UNSIGNED_BIGINT,
        "0 to 18446744073709551615 do not fit a bigint. `unsigned: long` sends the upper half as negative numbers, which are "
        "read back.",
        unsigned_bigint,
    ),
    Rule(
        ("decimal", "decimal unsigned"),
        "decimal(p,s) or string",
        "Up to 38 digits are a decimal in Delta; more are kept as text with all their digits.",
        lambda source: replace(numeric(source), loses=""),  # MariaDB has no NaN
    ),
    Rule(("double", "double unsigned"), "double", "The same IEEE 754 values.", cast("double")),
    Rule(
        ("float", "float unsigned"),
        "float",
        "The same IEEE 754 values, as far as they come.",
        cast("float"),
        loses="what a snapshot reads beyond six digits (MariaDB writes no more of a float as text)",
    ),
    Rule(
        ("year",),
        "int",
        "The year. 0000 is streamed as 1900, which is no year that the type has, and read back; a snapshot fails on it, "
        "though the column is left out. So `cdc preflight` and `cdc apply` look for it in tables that are yet to be read.",
        lambda _: LakeType("int", lambda text: sf.when(text == "1900", 0).otherwise(text.try_cast("int")), form="year"),
    ),
)
