"""Columns of other databases whose types are written as PostgreSQL would write them (spark.kinds.column_losses)."""

from __future__ import annotations

from spark.kinds.column_losses import LOSES, REFUSED, TICKS
from spark.types.modes import Modes
from spark.types.rule import Refused


def losses(kind: str, modes: Modes) -> str:
    """What the connector loses of a column of this kind under its modes; empty: nothing.

    Raises:
        Refused: no value of it is read exactly.
    """
    if kind in REFUSED:
        raise Refused(REFUSED[kind])
    if kind == TICKS and modes.temporal in ("adaptive", "adaptive_time_microseconds"):
        raise Refused(f"time.precision.mode={modes.temporal} sends it in nanoseconds; take microseconds")
    if kind == TICKS and modes.temporal in ("nanoseconds", "isostring"):
        return ""  # A record with such a digit is unfit.
    return LOSES.get(kind, "")
