"""Booleans and numbers, and numbers of a JSON text as they are written, where Spark's parser would make another one of them.

Jackson copies what is inside a document, and each number for a text, by a double: 0.12345678901234567890 becomes
0.12345678901234568, and 1e400 the text "Infinity" (Spark 4.0.4, JacksonParser and JsonGenerator.copyCurrentStructure). So
numbers that a double may not hold become strings that begin with MARK, which no text of others may have
(spark.events.json_records), and texts out of the parser become numbers again. Numbers of up to 15 digits are the same
through a double (https://en.cppreference.com/w/cpp/types/numeric_limits/digits10), whole ones of any length are copied as they
are.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.values.type_rule import LakeType, Refused, Rule, SourceType, as_text, cast

MARK = "\uffff"
# All loops are possessive: Java's then need no stack and never go back, whatever the text.
_STRING = r'"(?:[^"\\]++|\\.)*+"'
_WHOLE = r"-?+\d++(?![\d.eE])"
_SHORT = r"-?+(?:(?=[\d.]{1,16}+(?![\d.]))\d++\.\d++|\d{1,15}+(?=[eE]))(?:[eE][-+]?+\d{1,2}+)?+(?![\w.+-])"
_NUMBER = r"-?+(?:0|[1-9]\d*+)(?:\.\d++)?+(?:[eE][-+]?+\d++)?+(?![\w.+-])"
# From where the match before has ended: what is no such number, then one.
_LONG = rf'(?s)\G((?:[^"\d-]++|{_STRING}|{_WHOLE}|{_SHORT})*+)({_NUMBER})'
_MAY_BE_LONG = r"[\d.]{17}|\d[eE]"
_MARKED = rf'^{MARK}|"{MARK}([^"]*+)"'


def mark_long_numbers(text: Expression) -> Expression:
    """The JSON text with such numbers as strings; what is no JSON stays so."""
    return sf.when(text.rlike(_MAY_BE_LONG), sf.regexp_replace(text, _LONG, f'$1"{MARK}$2"')).otherwise(text)


def unmark_numbers(text: Expression) -> Expression:
    """A value's or a document's text with its numbers as they were written."""
    return sf.when(sf.contains(text, sf.lit(MARK)), sf.regexp_replace(text, _MARKED, "$1")).otherwise(text)


MAX_DIGITS = 38
DOUBLE_DIGITS = 15
_HEX = "0123456789ABCDEF"
UNSIGNED_BIGINT, WRAPPED = "decimal(20,0)", 1 << 64
SPECIAL = {"NAN": "NaN", "POSITIVE_INFINITY": "Infinity", "NEGATIVE_INFINITY": "-Infinity"}


def _boolean(text: Expression) -> Expression:
    return sf.when(text == "true", True).when(text == "false", False)


def numeric(source: SourceType) -> LakeType:
    """A decimal where Delta has one of that size, else the digits as text. Raises Refused: where the mode rounds it."""
    mode = source.modes.decimal
    if not source.args:
        return _any_size(mode)
    precision, scale = (*source.args, 0)[:2]
    # numeric(5,-2) has 7 digits before the point, numeric(3,5) has 5 after it.
    shifted = scale < 0
    precision, scale = (precision - scale, 0) if shifted else (max(precision, scale), scale)
    if precision > MAX_DIGITS or (shifted and mode == "precise"):
        return _any_size(mode)
    kind = f"decimal({precision},{scale})"
    if mode == "double":
        if precision > DOUBLE_DIGITS:
            raise Refused(f"decimal.handling.mode=double rounds more than {DOUBLE_DIGITS} digits")

        def of_double(text: Expression) -> Expression:
            # Of so few digits that the shortest text of its double is its own.
            value = text.try_cast(kind)
            return sf.when(value.cast("double") == text.try_cast("double"), value)

        return LakeType(kind, of_double)
    digits = rf"^-?\d+(\.\d{{0,{scale}}}0*)?$"
    if mode == "precise":
        plain = lambda text: _place_point(unscale(text), sf.lit(scale))  # noqa: E731
        return LakeType(kind, lambda text: plain(text).try_cast(kind), loses="NaN (sent as NULL)")
    return LakeType(kind, lambda text: sf.when(text.rlike(digits), text.try_cast(kind)), form="decimal")


def _any_size(mode: str) -> LakeType:
    if mode == "string":
        return LakeType("string", _digits, form="digits")
    if mode == "double":
        raise Refused(f"decimal.handling.mode=double rounds more than {DOUBLE_DIGITS} digits")
    raise Refused("decimal.handling.mode=precise sends it as bytes of any length, which Spark cannot read without a UDF")


def unscale(text: Expression) -> Expression:
    """Connect's Decimal: the unscaled value, big-endian two's complement in base64, as digits; null above 38 of them."""
    raw = sf.try_to_binary(text, sf.lit("base64"))
    digits = sf.hex(raw)
    negative = sf.left(digits, sf.lit(1)) >= "8"
    magnitude = sf.lpad(sf.when(negative, sf.translate(digits, _HEX, _HEX[::-1])).otherwise(digits), 32, "0")

    def part(start: int, length: int, power: int) -> Expression:
        value = sf.conv(sf.substr(magnitude, sf.lit(start), sf.lit(length)), 16, 10).try_cast("decimal(38,0)")
        return sf.try_multiply(value, sf.lit(str(1 << power)).cast("decimal(38,0)")).try_cast("decimal(38,0)")

    total = sf.try_add(sf.try_add(part(1, 8, 96), part(9, 12, 48)), part(21, 12, 0)).try_cast("decimal(38,0)")
    # -x is the complement of x - 1.
    signed = sf.when(negative, sf.concat(sf.lit("-"), sf.try_add(total, sf.lit(1)).cast("string"))).otherwise(
        total.cast("string")
    )
    return sf.when((sf.length(raw) > 0) & (sf.length(raw) <= 16), signed)


def unsigned_bigint(source: SourceType) -> LakeType:
    """0 to 2^64 - 1: as Connect's Decimal, whatever decimal.handling.mode says, or wrapped around (`unsigned: long`)."""
    if source.modes.unsigned == "long":
        return LakeType(UNSIGNED_BIGINT, _from_signed)
    return LakeType(UNSIGNED_BIGINT, lambda text: unscale(text).try_cast(UNSIGNED_BIGINT), form="unscaled")


def _from_signed(text: Expression) -> Expression:
    """The bits of a signed number, read as an unsigned one."""
    signed = text.try_cast("bigint").cast(UNSIGNED_BIGINT)
    return sf.when(signed < 0, (signed + sf.lit(str(WRAPPED)).cast("decimal(21,0)")).cast(UNSIGNED_BIGINT)).otherwise(signed)


def _place_point(digits: Expression, scale: Expression) -> Expression:
    """An unscaled value's digits with the point where the scale puts it."""
    sign = sf.when(digits.startswith("-"), "-").otherwise("")
    bare = sf.ltrim(digits, sf.lit("-"))
    padded = sf.when(sf.length(bare) > scale, bare).otherwise(sf.lpad(bare, scale + 1, sf.lit("0")))
    head, tail = sf.left(padded, sf.length(padded) - scale), sf.right(padded, scale)
    return sf.when(scale == 0, digits).otherwise(sf.concat(sign, head, sf.lit("."), tail))


def _money(source: SourceType) -> LakeType:
    if source.modes.decimal == "double":
        raise Refused("decimal.handling.mode=double rounds it")
    if source.modes.decimal == "precise":
        return LakeType("string", lambda text: _place_point(unscale(text), sf.lit(2)))
    return as_text(source)


def _digits(text: Expression) -> Expression:
    answer = text
    for sent, shown in SPECIAL.items():
        answer = sf.when(text == sent, shown).otherwise(answer)
    return answer


BOOLEAN = LakeType("boolean", _boolean, form="boolean")
_IEEE = "The same IEEE 754 values, NaN and infinities included."
_ZEROS = "In a key -0 is 0, as in PostgreSQL."
RULES = (
    Rule(("boolean",), "boolean", "The same values.", lambda _: BOOLEAN),
    Rule(("smallint",), "smallint", "The same range.", cast("smallint")),
    Rule(("integer",), "int", "The same range.", cast("int")),
    Rule(("bigint",), "bigint", "The same range.", cast("bigint")),
    Rule(("oid",), "bigint", "Unsigned 32 bits do not fit an int.", cast("bigint")),
    Rule(("real",), "float", f"{_IEEE} {_ZEROS}", cast("float")),
    Rule(("double precision",), "double", f"{_IEEE} {_ZEROS}", cast("double")),
    Rule(
        ("numeric",),
        "decimal(p,s) or string",
        "A decimal of up to 38 digits is exact in Delta; a scale below 0 or above the precision widens it. Without declared "
        "size, or with more digits, the digits are kept as text, NaN and infinities too. NaN in a decimal: the record is unfit.",
        numeric,
    ),
    Rule(("money",), "string", "The amount's digits; how many are fractions depends on the server's locale.", _money),
)


def year(_: SourceType) -> LakeType:
    """MySQL's and MariaDB's: 0, and 1901 to 2155. Their client counts from 1900, so 0 comes as that."""
    return LakeType("int", lambda text: sf.when(text == "1900", 0).otherwise(text.try_cast("int")), form="year")


DECLARED = (
    Rule(("bigint unsigned",), UNSIGNED_BIGINT, "0 to 18446744073709551615 do not fit a bigint.", unsigned_bigint),
    Rule(("year",), "int", "0000 is streamed as 1900, which is no year that the type has, and read back.", year),
)
"""Of MySQL, where columns are declared: PostgreSQL has no such types."""
