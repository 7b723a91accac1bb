"""Whether what was counted of a table as quarantined is something else by now: redriven, given up, or found since.

A record that was redriven is no part of it: it left the open ones then, and may leave the quarantine later without a new fate.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from spark.ledger.folds import FoldsToCount, number
from spark.ledger.ledger_commits import Counted
from spark.silver import quarantine
from spark.specs import SilverSpec


def signature(session: SparkSession, spec: SilverSpec, counted: Counted) -> str:
    """A digest of the open and given up records below the ledger's place, each with its state; empty where there are none.

    Only of a table that has ever set records aside.
    """
    state = sf.struct(sf.col("dropped_at").isNotNull(), sf.col("redriven_at").isNotNull())
    standing = quarantine.table(session, spec).where("redriven_at IS NULL OR dropped_at IS NOT NULL")
    below = standing.where(number(FoldsToCount((), counted)) == -1)
    one = sf.xxhash64("topic", "epoch", "partition", "offset", state)
    found = below.agg(sf.count("*").alias("n"), sf.bit_xor(one).alias("digest")).collect()[0]
    return f"{found.n}:{found.digest}" if found.n else ""


def has_changed(session: SparkSession, spec: SilverSpec, counted: Counted) -> bool:
    """Whether it has changed since the table was counted."""
    return signature(session, spec, counted) != counted.unsettled
