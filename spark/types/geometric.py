"""Geometric types: coordinates as the doubles that they are."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.types.rule import DOUBLES, LakeType, Rule, SourceType

ROOT = "$."


def _doubles(**paths: str) -> LakeType:
    """A struct of doubles, each from its place in the JSON object."""

    def convert(text: Expression) -> Expression:
        found = {name: sf.get_json_object(text, path).try_cast("double") for name, path in paths.items()}
        whole = _all_there(list(found.values()))
        return sf.when(whole, sf.struct(*[value.alias(name) for name, value in found.items()]))

    form = f"{DOUBLES}{','.join(f'{name}={path.removeprefix(ROOT)}' for name, path in paths.items())}"
    return LakeType(f"struct<{','.join(f'{name}:double' for name in paths)}>", convert, form=form)


def _all_there(values: Sequence[Expression]) -> Expression:
    answer = values[0].isNotNull()
    for value in values[1:]:
        answer = answer & value.isNotNull()
    return answer


def _wkb(text: Expression) -> Expression:
    return sf.try_to_binary(sf.get_json_object(text, "$.wkb"), sf.lit("base64"))


def _path(_: SourceType) -> LakeType:
    def convert(text: Expression) -> Expression:
        closed = sf.get_json_object(text, "$.extensions.closed").try_cast("boolean")
        wkb = _wkb(text)
        return sf.when(_all_there([wkb, closed]), sf.struct(wkb.alias("wkb"), closed.alias("closed")))

    return LakeType("struct<wkb:binary,closed:boolean>", convert, null_if_unchanged=True)


_WKB = "Well-known binary, which GIS tools read, with the coordinates' own doubles."
RULES = (
    Rule(("point",), "struct<x,y>", "The coordinates' own doubles.", lambda _: _doubles(x="$.x", y="$.y")),
    Rule(("line",), "struct<a,b,c>", "The line's own coefficients.", lambda _: _doubles(a="$.a", b="$.b", c="$.c")),
    Rule(
        ("circle",),
        "struct<x,y,radius>",
        "The circle's own doubles.",
        lambda _: _doubles(x="$.center.x", y="$.center.y", radius="$.radius"),
    ),
    Rule(("lseg", "box"), "binary", _WKB, lambda _: LakeType("binary", _wkb)),
    Rule(("polygon",), "binary", _WKB, lambda _: LakeType("binary", _wkb, null_if_unchanged=True)),
    Rule(("path",), "struct<wkb,closed>", f"{_WKB} Open and closed paths are told apart beside it.", _path),
    Rule(
        ("geometry", "geography", "vector", "halfvec", "sparsevec"),
        "",
        "what Debezium sends for it has not been measured",
        extension=True,
    ),
)
