"""Arrays of any dimension of the other types."""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.types.rule import LakeType


def array_of(element: LakeType) -> LakeType:
    """An array whose elements each convert exactly, or no value."""

    def convert(text: Expression) -> Expression:
        items = sf.from_json(text, "array<string>")
        broken = sf.exists(items, lambda item: item.isNotNull() & element.convert(item).isNull())
        return sf.when(~broken, sf.transform(items, element.convert))

    return LakeType(f"array<{element.name}>", convert)
