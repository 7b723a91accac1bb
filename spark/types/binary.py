"""Bytes and bits."""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.types.numbers import BOOLEAN
from spark.types.rule import LakeType, Rule, SourceType


def _binary(text: Expression) -> Expression:
    return sf.try_to_binary(text, sf.lit("base64"))


def _bit(source: SourceType) -> LakeType | None:
    return BOOLEAN if source.args == (1,) else None


RULES = (
    Rule(("bytea",), "binary", "The same bytes.", lambda _: LakeType("binary", _binary)),
    Rule(("bit",), "boolean for bit(1)", "it has no exact lake type", _bit),
    Rule(("bit varying",), "", "it has no exact lake type"),
)
