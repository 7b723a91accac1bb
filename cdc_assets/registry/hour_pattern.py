"""Where an hour's objects of a backup lie: a declared pattern of folders, such as `{yyyy}-{MM}-{dd}/{HH}`.

The fields stand in this order, so that a later hour sorts behind an earlier one.
"""

from __future__ import annotations

import re

DEFAULT_HOURS = "dt={yyyy}-{MM}-{dd}/hr={HH}"
_FIELDS = ("yyyy", "MM", "dd", "HH")
_MOST = 120
_TEXT = r"[A-Za-z0-9=._/-]*"
_PATTERN = re.compile(_TEXT + "".join(rf"\{{{name}\}}{_TEXT}" for name in _FIELDS))


def check_hours(pattern: str) -> str:
    """The pattern itself.

    Raises:
        ValueError: says what is wrong with it, and what one may look like.
    """
    parts = pattern.split("/")
    if not _PATTERN.fullmatch(pattern) or len(pattern) > _MOST:
        fields = ", ".join(f"{{{name}}}" for name in _FIELDS)
        why = f"needs {fields} once each and in this order, and else letters, digits and = . _ - /"
    elif "" in parts or any(part.startswith(("_", ".")) for part in parts):
        why = "may have no empty folder, and none that begins with _ or a point: those are the backup's own"
    else:
        return pattern
    raise ValueError(f"{pattern!r} {why}; such as {{yyyy}}-{{MM}}-{{dd}}/{{HH}} or {DEFAULT_HOURS}")
