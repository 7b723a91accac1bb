"""Booleans and numbers."""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.types.rule import LakeType, Rule, SourceType, as_text, cast

MAX_DIGITS = 38
SPECIAL = {"NAN": "NaN", "POSITIVE_INFINITY": "Infinity", "NEGATIVE_INFINITY": "-Infinity"}


def _boolean(text: Expression) -> Expression:
    return sf.when(text == "true", True).when(text == "false", False)


def numeric(source: SourceType) -> LakeType:
    """A decimal where Delta has one of that size, else the digits as text."""
    if not source.args:
        return LakeType("string", _digits)
    precision, scale = (*source.args, 0)[:2]
    # numeric(5,-2) has 7 digits before the point, numeric(3,5) has 5 after it.
    precision, scale = (precision - scale, 0) if scale < 0 else (max(precision, scale), scale)
    if precision > MAX_DIGITS:
        return LakeType("string", _digits)
    digits = rf"^-?\d+(\.\d{{0,{scale}}}0*)?$"
    kind = f"decimal({precision},{scale})"
    return LakeType(kind, lambda text: sf.when(text.rlike(digits), text.try_cast(kind)))


def _digits(text: Expression) -> Expression:
    answer = text
    for sent, shown in SPECIAL.items():
        answer = sf.when(text == sent, shown).otherwise(answer)
    return answer


BOOLEAN = LakeType("boolean", _boolean)
RULES = (
    Rule(("boolean",), "boolean", "The same values.", lambda _: BOOLEAN),
    Rule(("smallint",), "smallint", "The same range.", cast("smallint")),
    Rule(("integer",), "int", "The same range.", cast("int")),
    Rule(("bigint",), "bigint", "The same range.", cast("bigint")),
    Rule(("oid",), "bigint", "Unsigned 32 bits do not fit an int.", cast("bigint")),
    Rule(("real",), "float", "The same IEEE 754 values, NaN and infinities included.", cast("float")),
    Rule(("double precision",), "double", "The same IEEE 754 values, NaN and infinities included.", cast("double")),
    Rule(
        ("numeric",),
        "decimal(p,s) or string",
        "A decimal of up to 38 digits is exact in Delta; a scale below 0 or above the precision widens it. Without declared "
        "size, or with more digits, the digits are kept as text, NaN and infinities too. NaN in a decimal: the record is unfit.",
        numeric,
    ),
    Rule(("money",), "string", "The amount's digits; how many are fractions depends on the server's locale.", as_text),
)
