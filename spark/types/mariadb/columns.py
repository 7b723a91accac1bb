"""A column type as MariaDB's information_schema.columns.column_type writes it, taken apart.

bigint(20) unsigned zerofill   →  bigint unsigned, (20,)       zerofill only pads what is shown, and implies unsigned
enum('a','it''s')              →  enum
decimal(65,30)                 →  decimal, (65, 30)
"""

from __future__ import annotations

import re

from spark.types.modes import Modes
from spark.types.rule import SourceType

_SHAPE = re.compile(r"^(?P<name>[a-z0-9]+)\s*(?:\((?P<args>.*)\))?\s*(?P<flags>[a-z0-9 ]*)$", re.DOTALL)
_LABEL = re.compile(r"'((?:[^']|'')*)'")
ODD_LABELS = "enum or set with a comma or backslash in a label"
_NUMBERS = re.compile(r"^\d+(,\s*\d+)?$")


def parse(text: str, kind: str = "", *, accepted: bool = False, modes: str = "") -> SourceType | None:
    """None for text that is no type. `kind` is the character set of a column that has one."""
    shape = _SHAPE.match(text.strip())
    if shape is None:
        return None
    if shape["name"] in ("enum", "set") and any(odd in label for label in _LABEL.findall(shape["args"] or "") for odd in ",\\"):
        return SourceType(ODD_LABELS, (), False, kind, accepted, Modes.parse(modes))
    flags = shape["flags"].split()
    unsigned = " unsigned" if "unsigned" in flags or "zerofill" in flags else ""
    numbers = shape["args"] or ""
    args = tuple(int(a) for a in numbers.split(",")) if _NUMBERS.match(numbers) else ()
    return SourceType(f"{shape['name']}{unsigned}", args, False, kind, accepted, Modes.parse(modes))
