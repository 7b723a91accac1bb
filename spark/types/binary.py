"""Bytes and bits."""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.types.numbers import BOOLEAN
from spark.types.rule import LakeType, Rule, SourceType, binary

# PostgreSQL moves no value of up to 24 bytes out of its row, and 8 of them are the bits' header.
LONGEST_IN_PLACE = 128


def _bytea(source: SourceType) -> LakeType:
    mode = source.modes.binary
    form = "base64" if mode == "bytes" else ""
    return LakeType("binary", lambda text: binary(text, mode), null_if_unchanged=mode != "bytes", form=form)


def bit(source: SourceType) -> LakeType:
    """One bit as a boolean, more as text."""
    length = source.args[0] if source.args else 1
    if length == 1:
        return BOOLEAN

    def convert(text: Expression) -> Expression:
        """Debezium sends the bits as a little-endian number, without its leading zero bytes."""
        digits = sf.hex(binary(text))
        count = sf.length(digits) / 2
        # Not by `substr` for each byte, which counts from the text's start: n².
        pairs = sf.regexp_extract_all(digits, sf.lit("(..)"), sf.lit(1))
        octets = sf.transform(pairs, lambda pair: sf.lpad(sf.conv(pair, 16, 2), 8, "0"))
        bits = sf.regexp_replace(sf.array_join(sf.reverse(octets), ""), "^0+", "")
        fits = digits.isNotNull() & (sf.length(bits) <= length)
        return sf.when(count == 0, "0" * length).when(fits, sf.lpad(bits, length, "0"))

    return LakeType("string", convert, null_if_unchanged=length > LONGEST_IN_PLACE, form=f"bits {length}")


RULES = (
    Rule(("bytea",), "binary", "The same bytes.", _bytea),
    Rule(
        ("bit",),
        "boolean, or string from bit(2) on",
        "One bit is a boolean; more are written as PostgreSQL does: `0010`.",
        bit,
    ),
    Rule(("bit varying",), "", "Debezium leaves its leading zero bits out, and their number cannot be known"),
)
