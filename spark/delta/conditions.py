"""Many conditions as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf


def any_of(conditions: Sequence[Expression]) -> Expression:
    """Whether one of them holds; false of none."""
    return _join_as_tree(conditions, Expression.__or__) if conditions else sf.lit(False)


def all_of(conditions: Sequence[Expression]) -> Expression:
    """Whether each of them holds; true of none."""
    return _join_as_tree(conditions, Expression.__and__) if conditions else sf.lit(True)


def _join_as_tree(conditions: Sequence[Expression], both: Callable[[Expression, Expression], Expression]) -> Expression:
    """Spark Connect reads expressions of up to 100 levels: a chain of fifty conditions is deeper, and a tree has six."""
    if len(conditions) == 1:
        return conditions[0]
    half = len(conditions) // 2
    return both(_join_as_tree(conditions[:half], both), _join_as_tree(conditions[half:], both))
