"""The types that the registry's fields are made of: frozen models that refuse unknown keys, durations, names of tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Annotated, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)

from spark.errors import quantity
from spark.table.identifiers import double_quote

SOURCE_NAME = r"[a-z][a-z0-9_]{0,39}"
"""How a source may be called; it is part of keys, paths and topics."""
ConnectorName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._>-]{0,199}$")]
TopicName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]


class Declared(BaseModel):
    """Frozen; an unknown key is an error, since it is most likely a typo. What no field alone can tell is said by `refusals`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def refusals(self) -> Iterator[str]:
        """Why the values do not go together, for whoever wrote the file. The first one becomes the error."""
        yield from ()

    @model_validator(mode="after")
    def _go_together(self) -> Declared:
        for reason in self.refusals():
            raise ValueError(reason)
        return self


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PATTERN = r"^(\d+(ms|[smhd]))+$"
NEVER: Literal["never"] = "never"


def parse_duration(value: object) -> timedelta:
    """Turn `1h30m` into a timedelta.
    Raises ValueError: naming the accepted forms, when the text is anything else (a bare number included: `60` could be seconds or
    minutes, and guessing is how retention gets lost)."""
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str) or not re.match(_PATTERN, value):
        raise ValueError("a duration is written as number and unit: 500ms, 30s, 5m, 1h30m or 7d")
    return timedelta(seconds=sum(float(n) * _UNITS[u] for n, u in re.findall(r"(\d+)(ms|[smhd])", value)))


def parse_rhythm(value: object) -> timedelta | str:
    """A duration, or the word `never`. Raises ValueError: naming the accepted forms."""
    if value == NEVER:
        return NEVER
    try:
        return parse_duration(value)
    except ValueError as error:
        raise ValueError(f"{error}; or {NEVER}") from None


def format_duration(value: timedelta) -> str:
    """The shortest of our own forms for a duration."""
    milliseconds = round(value.total_seconds() * 1000)
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": _PATTERN}),
]
Rhythm = Annotated[
    timedelta | Literal["never"],
    BeforeValidator(parse_rhythm),
    PlainSerializer(lambda value: value if value == NEVER else format_duration(value), return_type=str),
    WithJsonSchema({"type": "string", "pattern": rf"{_PATTERN}|^{NEVER}$"}),
]


def at_least(least: timedelta, key: str, why: str) -> AfterValidator:
    """Refuse a duration below `least` at the field called `key`; `why` is the end of the sentence that its author is shown."""

    def check(value: timedelta) -> timedelta:
        if value < least:
            raise ValueError(f"{key}: {format_duration(least)} at least: {why}")
        return value

    return AfterValidator(check)


# Table names of a source database: parsing `schema.table`, with quotes where a part holds a dot.
#
# A name is taken literally, as it stands in the catalogue (no case folding): `public.City` is the table
# that SQL calls `public."City"`.
_PART = re.compile(r'"((?:[^"]|"")+)"|([^".\s][^".]*)')


class TableId(NamedTuple):
    """A table in its database."""

    schema: str
    table: str

    def __str__(self) -> str:
        return f"{_quote_if_needed(self.schema)}.{_quote_if_needed(self.table)}"


def parse_table(text: str) -> TableId:
    """Split `schema.table` (either part may be double-quoted).
    Raises ValueError: when the text is not exactly two parts, or holds a control character."""
    if any(ord(char) < 32 for char in text):
        raise ValueError("a table name holds no control characters")
    parts: list[str] = []
    at = 0
    while True:
        match = _PART.match(text, at)
        if not match:
            raise ValueError('a table is named schema.table, for example public.city or public."odd.name"')
        quoted, bare = match.groups()
        parts.append(quoted.replace('""', '"') if quoted is not None else bare)
        at = match.end()
        if at == len(text):
            break
        if text[at] != ".":
            raise ValueError('a table is named schema.table, for example public.city or public."odd.name"')
        at += 1
    if len(parts) != 2:
        raise ValueError(f"a table is named schema.table, this has {quantity(len(parts), 'part')}")
    return TableId(parts[0], parts[1])


TableName = Annotated[str, AfterValidator(lambda text: str(parse_table(text)))]
"""`schema.table` in one spelling, since what is onboarded is looked for by its name."""


def case_twins(names: Iterable[str]) -> Iterator[str]:
    """A sentence for each column whose name differs from an earlier one's by case alone.

    Debezium stops the whole source at such a table, whichever of its columns are wanted (JdbcConnection, 3.7).
    """
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            yield f"columns {other!r} and {name!r} differ only by case, which Debezium does not take: rename one at the source"


def _quote_if_needed(part: str) -> str:
    return double_quote(part) if re.search(r'[".\s]', part) else part
