"""What a family of types is made of: rules from a source type to a lake type, each with the conversion and its reason.

A conversion takes the JSON leaf as text and gives null for text that does not convert *exactly*: the caller treats
"text, but no value" as an error, so nothing becomes NULL, 0 or a rounded number on the way.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column as Expression

Convert = Callable[[Expression], Expression]

_SHAPE = re.compile(r"^(?P<head>[^(\[]+)(?:\((?P<args>[-\d,\s]+)\))?(?P<tail>[^\[\]]*?)(?P<array>(?:\[\d*\])*)$")


@dataclass(frozen=True)
class LakeType:
    """A Spark SQL type, and how the text of a JSON leaf becomes it."""

    name: str
    convert: Convert


@dataclass(frozen=True)
class SourceType:
    """A type as PostgreSQL's format_type() writes it, taken apart: `numeric(10,2)[]` is numeric, (10, 2), an array."""

    name: str
    args: tuple[int, ...] = ()
    array: bool = False

    @classmethod
    def parse(cls, text: str) -> SourceType | None:
        """None for text that is no type."""
        shape = _SHAPE.match(text.strip())
        if shape is None:
            return None
        name = f"{shape['head']}{shape['tail']}".strip()
        args = tuple(int(a) for a in shape["args"].split(",")) if shape["args"] else ()
        return cls(name, args, bool(shape["array"]))

    @property
    def bare(self) -> str:
        """The name without its schema and quotes."""
        return self.name.rsplit(".", 1)[-1].strip('"')


@dataclass(frozen=True)
class Rule:
    """What some source types become, and why. Without `build` they are refused, and `why` is the reason given.

    `lake` is for people: `decimal(p,s)`; what a column really gets is the LakeType that `build` makes of its type.
    """

    types: tuple[str, ...]
    lake: str
    why: str
    build: Callable[[SourceType], LakeType | None] | None = None


def cast(kind: str) -> Callable[[SourceType], LakeType]:
    """A lake type whose values Spark's own exact cast reads."""
    return lambda _: LakeType(kind, lambda text: text.try_cast(kind))


def as_text(_: SourceType) -> LakeType:
    """Text as it came."""
    return LakeType("string", lambda text: text)
