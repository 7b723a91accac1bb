"""Spatial types: well-known binary, which GIS tools read, with the reference system beside it."""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.types.rule import LakeType, Rule


def _shape(text: Expression) -> Expression:
    wkb = sf.try_to_binary(sf.get_json_object(text, "$.wkb"), sf.lit("base64"))
    srid = sf.get_json_object(text, "$.srid").try_cast("int")
    return sf.when(
        wkb.isNotNull() & (sf.length(wkb) > 0),
        sf.struct(wkb.alias("wkb"), sf.coalesce(srid, sf.lit("0").try_cast("int")).alias("srid")),
    )


RULES = (
    Rule(
        (
            *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"),
            "geometrycollection",
        ),
        "struct<wkb,srid>",
        "The coordinates' own doubles and the reference system's number.",
        lambda _: LakeType("struct<wkb:binary,srid:int>", _shape),
    ),
)
