"""What a family of types is made of: rules from a source type to a lake type, each with the conversion and its reason.

A conversion takes the JSON leaf as text and gives null for text that does not convert *exactly*: the caller treats
"text, but no value" as an error, so nothing becomes NULL, 0 or a rounded number on the way.

What was observed of Debezium is said here for 3.7.0.Final on PostgreSQL 18, in snapshots and streamed changes alike
unless one of them is named (cdc_assets_tests/types measures it again).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.values.handling_modes import Modes

OURS = Modes()
ARRAY = "array of "
"""Before the form of an array's elements."""
DOUBLES = "doubles "
"""Before the places of a struct's doubles in a JSON object, such as `x=center.x,radius=radius`."""
Convert = Callable[[Expression], Expression]

_SHAPE = re.compile(r"^(?P<head>[^(\[]+)(?:\((?P<args>[-\d,\s]+)\))?(?P<tail>[^\[\]]*?)(?P<array>(?:\[\d*\])*)$")


@dataclass(frozen=True)
class LakeType:
    """A Spark SQL type, and how the text of a JSON leaf becomes it.

    `form` is how Arrow reads the same leaf (spark.values.arrow_forms); empty: only Spark does. `null_if_unchanged`: an unchanged
    TOASTed value of it arrives as NULL, where other types have a placeholder.
    `loses`: what the connector's mode loses of it besides, as in Rule.
    """

    name: str
    convert: Convert
    null_if_unchanged: bool = False
    loses: str = ""
    form: str = ""


class Refused(Exception):  # noqa: N818 - control flow between a rule and the registry, never seen outside
    """A rule's way to say that a type cannot be read under the connector's modes."""


@dataclass(frozen=True)
class SourceType:
    """A type as PostgreSQL's format_type() writes it, taken apart: `numeric(10,2)[]` is numeric, (10, 2), an array.

    `kind` is what the catalogue says of a user-defined type: enum, composite, domain, range, multirange, base, or
    fixed: a base type of fixed length.
    `accepted`: the table takes what Debezium loses of it. `modes` are the connector's.
    """

    name: str
    args: tuple[int, ...] = ()
    array: bool = False
    kind: str = ""
    accepted: bool = False
    modes: Modes = OURS

    @classmethod
    def parse(cls, text: str, kind: str = "", *, accepted: bool = False, modes: str = "") -> SourceType | None:
        """None for text that is no type."""
        shape = _SHAPE.match(text.strip())
        if shape is None:
            return None
        name = f"{shape['head']}{shape['tail']}".strip()
        args = tuple(int(a) for a in shape["args"].split(",")) if shape["args"] else ()
        return cls(name, args, bool(shape["array"]), kind, accepted, Modes.parse(modes))

    @property
    def bare(self) -> str:
        """The name without its schema and quotes."""
        return self.name.rsplit(".", 1)[-1].strip('"')


@dataclass(frozen=True)
class Rule:
    """What some source types become, and why. Without `build` they are refused, and `why` is the reason given.

    `lake` is for people: `decimal(p,s)`; what a column really gets is the LakeType that `build` makes of its type.
    `loses` says which values Debezium changes so that nobody can tell any more: such a column is refused unless the
    table's `accept_inexact` names it. `extension` types may stand in any schema.
    """

    types: tuple[str, ...]
    lake: str
    why: str
    build: Callable[[SourceType], LakeType | None] | None = None
    loses: str = ""
    extension: bool = False


def cast(kind: str) -> Callable[[SourceType], LakeType]:
    """A lake type whose values Spark's own exact cast reads; a float or double as near as the type comes, and within it."""

    def convert(text: Expression) -> Expression:
        value = text.try_cast(kind)
        if kind not in ("float", "double"):
            return value
        # The cast makes an infinity of 1e400, and 0 of 1e-400, where PostgreSQL has an error.
        too_large = (sf.abs(value) == float("inf")) & text.rlike(r"\d")
        too_small = (value == 0) & text.rlike(r"^\s*[-+]?[0.]*[1-9]")
        return sf.when(~(too_large | too_small), value)

    return lambda _: LakeType(kind, convert, form="number")


def as_text(_: SourceType) -> LakeType:
    """Text as it came."""
    return LakeType("string", lambda text: text, form="text")


def binary(text: Expression, mode: str = "bytes") -> Expression:
    """Bytes as binary.handling.mode writes them."""
    if mode == "hex":
        return sf.try_to_binary(text, sf.lit("hex"))
    if mode == "base64-url-safe":
        text = sf.translate(text, "-_", "+/")
    return sf.try_to_binary(text, sf.lit("base64"))


def bytes_as_text(source: SourceType) -> LakeType:
    """PostgreSQL's own text of a value of fixed length, whose bytes Debezium sends (include.unknown.datatypes)."""
    if source.modes.unknown == "omit":
        raise Refused("the connector leaves it out (include.unknown.datatypes=false)")
    form = "base64_text" if source.modes.binary == "bytes" else ""
    return LakeType("string", lambda text: sf.try_validate_utf8(binary(text, source.modes.binary).cast("string")), form=form)


def long_bytes_as_text(source: SourceType) -> LakeType:
    """PostgreSQL's own text of a value that may be TOASTed."""
    return replace(bytes_as_text(source), null_if_unchanged=True)
