"""Many conditions as one."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf


def any_of(conditions: Sequence[Expression]) -> Expression:
    """Whether one of them holds, as a balanced tree: Spark Connect reads expressions of up to 100 levels."""
    if not conditions:
        return sf.lit(False)
    if len(conditions) == 1:
        return conditions[0]
    half = len(conditions) // 2
    return any_of(conditions[:half]) | any_of(conditions[half:])
