"""Bytes and bits."""

from __future__ import annotations

from spark.types.binary import bit
from spark.types.rule import LakeType, Rule, SourceType, binary


def _bytes(source: SourceType) -> LakeType:
    mode = source.modes.binary
    return LakeType("binary", lambda text: binary(text, mode), form="base64" if mode == "bytes" else "")


RULES = (
    Rule(
        ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"),
        "binary",
        "The same bytes; binary(n) with the zeros that fill it up.",
        _bytes,
    ),
    Rule(("bit",), "boolean, or string from bit(2) on", "One bit is a boolean; more are written out: `0010`.", bit),
)
