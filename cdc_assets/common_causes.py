"""What is told of many tables in the same words is one cause: one line for people, whatever each table is called."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Complaint(NamedTuple):
    """Of `place`, in words that may name its own `table`; `kind` keeps apart what must not be one line."""

    place: str
    table: str
    text: str
    kind: str = ""


def common_causes(told: Iterable[Complaint]) -> list[list[Complaint]]:
    """Those of each cause, in the order of the first ones."""
    found: dict[tuple[str, str], list[Complaint]] = {}
    for each in told:
        found.setdefault((each.kind, _without_own_name(each)), []).append(each)
    return list(found.values())


def first_and_more(same: Sequence[Complaint]) -> str:
    """The first one's place, and how many others there are."""
    return same[0].place + (f" and {len(same) - 1} more" if same[1:] else "")


def _without_own_name(told: Complaint) -> str:
    """The text, with a mark for the table's name: as a whole word, also within `public.orders` or `silver_orders`."""
    name = re.escape(told.table)
    return re.sub(rf"(?<![^\W_]){name}(?![^\W])", "\0", told.text) if name else told.text
