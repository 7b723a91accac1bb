"""How a batch lays out its objects: below which folders, and in which form a record's value stands in its line.

A batch's plan names it, so that a batch that was begun is finished as it was begun, whatever is declared by now.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from cdc_assets.registry.hour_pattern import DEFAULT_HOURS, check_hours

Values = Literal["text", "json"]


@dataclass(frozen=True)
class ObjectLayout:
    """`values`: as a string always, or as JSON itself where it is a JSON object (cdc_assets.backup.json_values)."""

    hours: str = DEFAULT_HOURS
    values: Values = "text"

    def __post_init__(self) -> None:
        check_hours(self.hours)
        if self.values not in ("text", "json"):
            raise ValueError(f"values are text or json, not {self.values!r}")

    def hour_folder(self, timestamp: int) -> str:
        """Of a record's own timestamp (milliseconds, UTC), such as `dt=2026-11-21/hr=05`."""
        return _hour_folder(self.hours, timestamp // 3_600_000)

    def end_of_hour(self, folder: str) -> int:
        """Milliseconds at which the hour of such a folder is over (UTC): what lies in it is older.

        Raises:
            ValueError: it is no folder of this layout.
        """
        return 3_600_000 * (_hour_of_folder(self.hours, folder) + 1)


@lru_cache(1024)
def _hour_folder(pattern: str, hour: int) -> str:
    import numpy as np

    # numpy's calendar, because Python's ends with the year 9999: a producer that sends microseconds is in the year 58,000.
    date, _, hour_of_day = str(np.datetime64(hour, "h")).partition("T")
    year, month, day = date.rsplit("-", 2)
    return pattern.format(yyyy=year, MM=month, dd=day, HH=hour_of_day)


@lru_cache(1024)
def _hour_of_folder(pattern: str, folder: str) -> int:
    import numpy as np

    text = re.escape(pattern.format(yyyy="\0", MM="\1", dd="\2", HH="\3"))
    for mark, field in zip("\0\1\2\3", (r"(-?\d{4,})", r"(\d\d)", r"(\d\d)", r"(\d\d)"), strict=True):
        text = text.replace(re.escape(mark), field)
    found = re.fullmatch(text, folder)
    if found is None:
        raise ValueError(f"{folder!r} is no folder of {pattern}")
    return int(np.datetime64("{}-{}-{}T{}".format(*found.groups()), "h").astype("int64"))
