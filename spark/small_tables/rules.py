"""What a table's declaration says against folding it in a task."""

from __future__ import annotations

import re

from spark.silver.table import soft
from spark.specs import SilverSpec

ENVELOPE = "debezium-json"
_REAL = re.compile(r"\b(real|float|double|point|line|circle)")
_PLAIN_NAME = re.compile(r"^[^\W\d]\w*$")


def reason_against(spec: SilverSpec) -> str:
    """Why only Spark's fold knows the table's rules; empty where a task may look at it."""
    reasons = {
        f"its records are no {ENVELOPE}": spec.envelope != ENVELOPE,
        "its events may be about parts of rows": spec.partial,
        "deleted rows stay": soft(spec),
        # Arrow reads 1e-400 as 0.
        "others write its numbers": spec.foreign and any(_REAL.search(column.source_type) for column in spec.columns),
        "a column has a name that Spark writes": not all(_PLAIN_NAME.match(column.name) for column in spec.columns),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")
