"""Booleans and numbers."""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.types.rule import LakeType, Rule, SourceType, as_text, cast

MAX_DIGITS = 38


def _boolean(text: Expression) -> Expression:
    return sf.when(text == "true", True).when(text == "false", False)


def numeric(source: SourceType) -> LakeType:
    """A decimal where Delta has one of that size, else the digits as text."""
    precision, scale = (*source.args, 0)[:2] if source.args else (0, 0)
    if not source.args or precision > MAX_DIGITS or not 0 <= scale <= precision:
        return LakeType("string", lambda text: sf.when(text == "NAN", "NaN").otherwise(text))
    digits = rf"^-?\d+(\.\d{{0,{scale}}}0*)?$"
    kind = f"decimal({precision},{scale})"
    return LakeType(kind, lambda text: sf.when(text.rlike(digits), text.try_cast(kind)))


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
        "A decimal with 1 to 38 digits and a scale within them is exact in Delta. One without declared size, with more digits "
        "or with a negative scale is kept as its digits. NaN has no decimal: such a record is unfit.",
        numeric,
    ),
    Rule(("money",), "string", "Its fraction digits depend on the server's locale.", as_text),
)
