"""Keys of one table, as a person writes them: one by one, or a range between two of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spark.errors import ReplayError

FROM, TO = "--from-key", "--to-key"


@dataclass(frozen=True)
class WantedKeys:
    """Single keys, or a range: both bounds are in it, and None is open on that side. Without any, all keys are wanted."""

    single: tuple[str, ...] = ()
    begin: str | None = None
    end: str | None = None

    def __bool__(self) -> bool:
        """Whether some keys are wanted and not all."""
        return bool(self.single) or self.is_range

    @property
    def is_range(self) -> bool:
        """Whether there is a bound."""
        return self.begin is not None or self.end is not None

    @property
    def options(self) -> str:
        """The options by which they were given, for messages."""
        return "--keys" if self.single else "/".join(name for name, _ in self.bounds)

    @property
    def bounds(self) -> tuple[tuple[str, str], ...]:
        """Those that there are, each with its option."""
        return tuple((name, text) for name, text in ((FROM, self.begin), (TO, self.end)) if text is not None)

    @property
    def text(self) -> str:
        """In words; empty where all are wanted."""
        if self.single:
            return f"keys {', '.join(self.single)}"
        words = {FROM: "from", TO: "to"}
        return f"keys {' '.join(f'{words[name]} {text}' for name, text in self.bounds)}" if self.is_range else ""


ALL_KEYS = WantedKeys()


def parse_columns(text: str, names: Sequence[str]) -> dict[str, Any] | None:
    """What a person has written of a key, by column: `{"a": 1, "b": "x"}`, or a single column's value as it is; numbers as they
    are written. None: it is neither."""
    if len(names) == 1 and not text.startswith("{"):
        return {names[0]: text}
    try:
        told: Any = json.loads(text, parse_float=str, parse_int=str)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def parse_bound(text: str, names: Sequence[str]) -> list[str]:
    """The values of a bound as texts: `{"a": 1, "b": "x"}`, whose last columns may be left out, or a single column's value.

    Raises:
        ReplayError: it is no bound of a key of these columns.
    """
    told = parse_columns(text, names)
    if not told or {*told} != {*names[: len(told)]} or any(value is None for value in told.values()):
        shape = ", ".join(f'"{name}": …' for name in names)
        more = ", without NULL; the last columns may be left out" if len(names) > 1 else ", or the value alone"
        raise ReplayError(f"{text!r} is no bound of a key: write {{{shape}}}{more}")
    return [str(told[name]) for name in names[: len(told)]]
