"""Rewriting by Spark's OPTIMIZE and REORG, for tables with features of Delta that only Spark writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spark.delta.conflicts import MAY_PASS, is_conflict
from spark.delta.identifiers import table_at
from spark.delta.lease import lend_to_spark
from spark.delta.live_files import read_live_table
from spark.errors import LeaseHeldError, LeftToSparkError
from spark.maintenance.look import SMALL_BYTES
from spark.maintenance.rewriting import BIN_BYTES, LEASE_SECONDS, Rewritten

RewriteBySpark = Callable[[str], str]
"""Given a table's path: `optimize` in some session; why it was given up, empty where it was done."""


def optimize(session: Any, path: str) -> str:
    """Small files made one, rows that are gone taken out; why it gave way to a writer, empty where it did not."""
    session.conf.set("spark.databricks.delta.optimize.minFileSize", str(SMALL_BYTES))
    session.conf.set("spark.databricks.delta.optimize.maxFileSize", str(BIN_BYTES))
    try:
        with lend_to_spark(path, seconds=LEASE_SECONDS):
            session.sql(f"OPTIMIZE {table_at(path)}").collect()
            session.sql(f"REORG TABLE {table_at(path)} APPLY (PURGE)").collect()
    except (LeftToSparkError, LeaseHeldError) as reason:
        return str(reason)
    except MAY_PASS as error:
        if not is_conflict(error):
            raise
        return f"a writer came first: {str(error)[:200]}"
    return ""


def count_rewritten(path: str, spark: RewriteBySpark) -> Rewritten:
    """Have Spark do it, and tell from the log what that did."""
    before = read_live_table(path)
    reason = spark(path)
    now = read_live_table(path)
    gone, new = set(before.files) - set(now.files), set(now.files) - set(before.files)
    return Rewritten(now.version - before.version, len(gone), len(new), reason)
