"""Texts of a registry file that are no texts: half a character, which YAML's escapes can write and UTF-8 cannot."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_HALF = re.compile(r"[\ud800-\udfff]")
_TOLD = (
    "holds half a character (a surrogate), got {!r}; no topic, file or database takes it: write the character itself, in UTF-8, "
    r"or as \UXXXXXXXX"
)


def find_broken_texts(node: Any, loc: tuple[int | str, ...] = ()) -> Iterator[tuple[tuple[int | str, ...], str]]:
    """Where such a key or value is, and why it is refused."""
    if isinstance(node, str):
        if _HALF.search(node):
            yield loc, _TOLD.format(str(node))
        return
    entries = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in entries:
        if isinstance(key, str) and _HALF.search(key):
            yield (*loc, key), _TOLD.format(str(key))
        else:
            yield from find_broken_texts(value, (*loc, key))
