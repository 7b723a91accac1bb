"""Ranges and multiranges."""

from __future__ import annotations

from spark.types.rule import Rule, as_text

RULES = (
    Rule(
        ("int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange"),
        "string",
        "PostgreSQL's own form: bounds may be infinite, and the range empty.",
        as_text,
    ),
    Rule(
        ("int4multirange", "int8multirange", "nummultirange", "tsmultirange", "tstzmultirange", "datemultirange"),
        "",
        "it has no exact lake type",
    ),
)
