"""Names that a table's columns have because the product's own statements and frames give them too."""

from __future__ import annotations

from collections.abc import Sequence

from cdc_assets_tests.support.given_names import whole_names
from spark.schema.own_names import is_own_name

OF_OLD = (
    *(
        "b",
        "gone",
        "cdc_gone",
        "cdc_micros",
        "cdc_back",
        "cdc_count",
        "cdc_file",
        "cdc_event_micros",
        "back",
        "hops",
        "kept",
        "o",
    ),
    *(
        "says",
        "rank_max",
        "change",
        " 0",
        "w_0",
        "window_start",
        "text of b",
        "found",
        "c0",
        "c1",
        "k0",
        "l0",
        "v0",
        "t0",
        "_metadata",
    ),
)
"""Given by earlier releases, where a column of the name changed or ended what was done; or put together by numbers."""


def taken_names() -> list[str]:
    """All that a column may be called today, once whatever its case."""
    found = {name.lower(): name for name in (*whole_names(), *OF_OLD) if not is_own_name(name)}
    return [name for key, name in sorted(found.items()) if key != "id"]


def values_of(number: int, names: Sequence[str]) -> list[int]:
    """Of a row: few different ones, so that rows fall together by any column but their key."""
    return [(place * 7 + number * 3) % 5 for place, _ in enumerate(names)]
