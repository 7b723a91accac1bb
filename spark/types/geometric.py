"""Geometric types and the vectors of extensions."""

from __future__ import annotations

from spark.types.rule import Rule

RULES = (
    Rule(
        (*("point", "line", "lseg", "box", "path", "polygon", "circle"), *("geometry", "geography", "vector")),
        "",
        "it has no exact lake type",
    ),
)
