"""Ranges and multiranges."""

from __future__ import annotations

from spark.types.rule import Rule, as_text, long_bytes_as_text

RULES = (
    Rule(
        ("int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange"),
        "string",
        "PostgreSQL's own form: bounds may be infinite, and the range empty.",
        as_text,
    ),
    Rule(
        ("int4multirange", "int8multirange", "nummultirange", "tsmultirange", "tstzmultirange", "datemultirange"),
        "string",
        "PostgreSQL's own form; Debezium sends its bytes (include.unknown.datatypes).",
        long_bytes_as_text,
    ),
)
