"""Steps by Spark, for tables with features of Delta that only Spark writes: its OPTIMIZE, and properties.

Spark commits what it has written without looking whose turn it is, so it has the table's turn for all of it, as every writer
of Spark has (spark.delta.lease). One that waits for it waits for one OPTIMIZE of files that are small or worn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from spark.delta.conflicts import MAY_PASS, is_conflict
from spark.delta.identifiers import literal, table_at
from spark.delta.lease import lend_to_spark
from spark.delta.live_files import read_live_table
from spark.errors import LeaseHeldError, LeftToSparkError
from spark.maintenance.look import SMALL_BYTES
from spark.maintenance.rewriting import BIN_BYTES, GONE_SHARE, LEASE_SECONDS, Rewritten

Step = Callable[[Any, str], str]
"""`optimize` or `set_properties`: given a session and a table's path, why it gave way to a writer; empty where it did not."""
BySpark = Callable[[Step, str], str]
"""Does a step in some session."""
_CONF = {
    "spark.databricks.delta.optimize.minFileSize": str(SMALL_BYTES),
    "spark.databricks.delta.optimize.maxFileSize": str(BIN_BYTES),
    "spark.databricks.delta.optimize.maxDeletedRowsRatio": str(GONE_SHARE),
}


def optimize(session: Any, path: str) -> str:
    """Small files made one; files of which much is gone written anew."""
    for name, value in _CONF.items():
        session.conf.set(name, value)
    return _in_turn(path, lambda: session.sql(f"OPTIMIZE {table_at(path)}").collect())


def set_properties(session: Any, path: str, *, properties: Mapping[str, str]) -> str:
    """Those of the table, from now on."""
    told = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in sorted(properties.items()))
    return _in_turn(path, lambda: session.sql(f"ALTER TABLE {table_at(path)} SET TBLPROPERTIES ({told})").collect())


def _in_turn(path: str, statement: Callable[[], Any]) -> str:
    try:
        with lend_to_spark(path, seconds=LEASE_SECONDS):
            statement()
    except (LeftToSparkError, LeaseHeldError) as reason:
        return str(reason)
    except MAY_PASS as error:
        if not is_conflict(error):
            raise
        return f"a writer came first: {str(error)[:200]}"
    return ""


def count_rewritten(path: str, spark: BySpark) -> Rewritten:
    """Have Spark do it, and tell from the log what that did."""
    before = read_live_table(path)
    reason = spark(optimize, path)
    now = read_live_table(path)
    gone, new = set(before.files) - set(now.files), set(now.files) - set(before.files)
    return Rewritten(now.version - before.version, len(gone), len(new), reason)
