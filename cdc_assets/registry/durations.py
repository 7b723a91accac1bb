"""Durations as users write them in YAML: `30s`, `5m`, `1h30m`, `7d`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PATTERN = r"^(\d+(ms|[smhd]))+$"
NEVER: Literal["never"] = "never"


def parse_duration(value: object) -> timedelta:
    """Turn `1h30m` into a timedelta.

    Raises:
        ValueError: naming the accepted forms, when the text is anything else (a bare number included:
            `60` could be seconds or minutes, and guessing is how retention gets lost).
    """
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str) or not re.match(_PATTERN, value):
        raise ValueError("a duration is written as number and unit: 500ms, 30s, 5m, 1h30m or 7d")
    return timedelta(seconds=sum(float(n) * _UNITS[u] for n, u in re.findall(r"(\d+)(ms|[smhd])", value)))


def parse_rhythm(value: object) -> timedelta | str:
    """A duration, or the word `never`.

    Raises:
        ValueError: naming the accepted forms.
    """
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
