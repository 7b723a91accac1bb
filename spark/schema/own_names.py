"""Names that a source's column may not have: silver's own columns, and what stands beside a table's columns in a statement.

In SQL a column of the table comes before a name that the statement gives: `SELECT f(x) AS b … GROUP BY b` groups by the table's
own `b`, where it has one, and nothing says so. So whatever a statement, a frame of Spark or a table of Arrow names beside columns
that have the source's names begins with `_cdc_`, and no column of a source does.
"""

from __future__ import annotations

from spark.specs import OWN_COLUMNS

OWN_PREFIX = "_cdc_"


def is_own_name(name: str) -> bool:
    """Whether a source's column of this name is refused, in any case."""
    return name.lower() in OWN_COLUMNS or name.lower().startswith(OWN_PREFIX)
