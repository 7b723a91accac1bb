"""What SQL by windows of event time has in common, whichever database computes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cdc_assets.errors import DatabaseError
from cdc_assets.registry.identifiers import TableId
from spark.windowed.declared_windows import Measure, WindowedSpec

MOST_GROUPS = 200_000
"""Held in memory; of more nothing is compared."""
_FUNCTIONS = {"count": "count({})", "sum": "sum({})", "min": "min({})", "max": "max({})", "distinct": "count(DISTINCT {})"}


def measure_sql(measure: Measure, columns: Mapping[str, str]) -> str:
    """The figure, of a column as `columns` writes it."""
    return _FUNCTIONS[measure.function].format(columns[measure.column] if measure.column else "*")


def latest_start(micros: str, every: int) -> str:
    """The newest window that an event is in, in microseconds; `%` has the sign of what is divided, as before 1970."""
    return f"{micros} - (({micros} % {every}) + {every}) % {every}"


def window_rows(found: Sequence[Any], table: TableId, place: str, spec: WindowedSpec) -> list[tuple[Any, ...]]:
    """Keys, start and measures of each result, with the start as an int.

    Raises:
        DatabaseError: they are more than are held in memory.
    """
    if len(found) > MOST_GROUPS:
        raise DatabaseError(f"{table} at {place} has more than {MOST_GROUPS:,} results of windows {spec.name}")
    return [(*row[: len(spec.by)], int(row[len(spec.by)]), *row[len(spec.by) + 1 :]) for row in found]
