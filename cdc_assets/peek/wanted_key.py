"""Which key is looked for: `42`, `id=42`, or the key's JSON."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any


def matches_key(wanted: str, found: Any) -> bool:
    """Whether a decoded key is the one; numbers and texts of one writing are the same."""
    if not isinstance(found, dict):
        return _text(found) == wanted
    fields = {name: _text(value) for name, value in found.items()}
    if wanted.startswith("{"):
        try:
            asked = json.loads(wanted, parse_float=Decimal)
        except ValueError:
            return False
        return all(name in fields and fields[name] == _text(value) for name, value in asked.items())
    name, sign, value = wanted.partition("=")
    if sign and name in fields:
        return fields[name] == value
    return [*fields.values()] == [wanted]


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, default=str)
