"""A number and its noun, in a message: `1 row`, `2 rows`. The jobs do not import cdc_assets."""

from __future__ import annotations


def quantity(count: int, noun: str, *, form: str = "") -> str:
    """`count` in Python's format `form` (`,` groups thousands), and the noun, in the plural unless the count is 1."""
    if count == 1:
        return f"1 {noun}"
    # entry: entries; key: keys.
    plural = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"
    return f"{count:{form}} {plural}"
