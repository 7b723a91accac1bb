"""The ledger's rows: what one run adds to each window, by op, and the trigger that it came by (a pane); and up to which
place the run has counted.

What an earlier pane said wrongly by today's knowledge is taken back by negative numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.proof.ledger_contract import FATES, HOPS, LINKS, Counted
from spark.proof.ledger_folds import TableSlice
from spark.proof.ledger_topic_counts import Transport, TransportReach


@dataclass(frozen=True)
class Booked:
    """One table's part of a run: `rows` in ARROW, and how many folds are `left` for the next commit."""

    rows: pa.Table
    counted: Counted
    left: int
    kept: str = ""
    """Why the topics were not counted anew, where that was asked."""


def place_behind(table_slice: TableSlice, reached: TransportReach, newest: int) -> Counted:
    """Up to where the ledger has counted: in silver, and in the topics' transport. `newest` is the slice's newest event, in
    microseconds."""
    last = table_slice.cut.last
    return Counted(
        silver_version=last.version,
        operation_id=last.operation_id,
        folded=last.topics,
        truncated=last.truncated,
        snapshot=last.snapshot,
        watermark=max(newest, table_slice.before.watermark if table_slice.before else 0),
        mirror_positions=reached.mirror_positions,
        topic_positions=reached.positions,
        topic_ids=reached.ids,
        uncounted=reached.uncounted,
        missing=reached.missing,
        unsettled="",
    )


COUNTS = (*LINKS, *FATES)
SUMS = tuple(f"{hop}_{figure}" for hop in HOPS for figure in ("n", "ms_sum"))
MAXIMA = ("late_by_ms_max", *[f"{hop}_ms_max" for hop in HOPS])
SCHEMA = "table string, window_start timestamp, op string, pane string, counted_at timestamp, " + ", ".join(
    f"{name} bigint" for name in (*COUNTS, *SUMS, *MAXIMA)
)
COLUMNS = tuple(field.split()[0] for field in SCHEMA.split(", "))
MEASURES = (*COUNTS, *SUMS, *MAXIMA, "newest")
ARROW = pa.schema([("window", pa.int64()), ("kind", pa.string()), *[(name, pa.int64()) for name in MEASURES]])
"""What a run adds to a table's windows, as it is in hand before it is booked."""


def wide(counted: DataFrame, fates: DataFrame) -> DataFrame:
    """One row per window and kind of a table: what the lake says."""
    by_fate = [sf.when(sf.col("fate") == name, sf.col("n")).alias(name) for name in FATES]
    return sum_parts(counted, fates.select("window", "kind", *by_fate))


def with_links(lake: DataFrame, moved: Transport, back: DataFrame | None = None) -> DataFrame:
    """With `topic` and `mirror` too, where they could be counted. `back` is what is taken back of them."""
    links = moved.links
    measures = [frame.select("window", "kind", sf.col("n").alias(name)) for name, frame in links.items()]
    if back is not None:
        both = sum_parts(*measures, back)
        # A window that could not be counted is said to be counted now, also where its sum is what it was.
        measures = [both.where(sf.expr(" OR ".join(f"{name} <> 0" for name in (*links, "open")))).drop("open")]
    return sum_parts(lake, *measures) if measures else lake


def _total(name: str) -> Expression:
    if name in (*MAXIMA, "newest"):
        return sf.max(name).cast("bigint").alias(name)
    return sf.coalesce(sf.sum(name), sf.lit(0)).cast("bigint").alias(name)


def reversal(session: SparkSession, path: str, table: str) -> DataFrame:
    """What the ledger has said of a table so far, to be taken back: negative numbers; of bronze and of the fates."""
    back = _back(session, path, table, [(-sf.sum(n)).alias(n) for n in ("bronze", *FATES)])
    return back.where(sf.expr(" OR ".join(f"{n} <> 0" for n in ("bronze", *FATES))))


def link_sums(session: SparkSession, path: str, table: str, links: Sequence[str]) -> DataFrame:
    """The same of the topics; `open` is how many panes do not say how much was in one of them."""
    sums = [(-sf.coalesce(sf.sum(n), sf.lit(0))).alias(n) for n in links]
    return _back(session, path, table, [*sums, sf.count_if(sf.expr(" OR ".join(f"{n} IS NULL" for n in links))).alias("open")])


def _back(session: SparkSession, path: str, table: str, sums: list[Expression]) -> DataFrame:
    rows = session.read.format("delta").load(path).where(sf.col("table") == table)
    return rows.groupBy(sf.unix_seconds("window_start").alias("window"), sf.col("op").alias("kind")).agg(*sums)


def difference(new: DataFrame, back: DataFrame) -> DataFrame:
    """What a count anew adds to what is booked: windows without a difference are left out."""
    named = ["window", "kind", "bronze", *FATES]
    kept = new.select(*named, "newest")
    rows = sum_parts(kept, back)
    changed = sf.expr(" OR ".join(f"{n} <> 0" for n in ("bronze", *FATES)))
    return rows.where(changed)


def sum_parts(*parts: DataFrame) -> DataFrame:
    """The sum of rows with different measures, with those that one of them has."""
    measures = dict.fromkeys(c for frame in parts for c in frame.columns if c not in ("window", "kind"))
    rows = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)
    return rows.groupBy("window", "kind").agg(*map(_total, measures))


def complete(rows: DataFrame) -> DataFrame:
    """With every measure; null where nothing is known of one."""
    columns = {*rows.columns}
    every = [sf.col(name) if name in columns else sf.lit(None).cast("bigint").alias(name) for name in MEASURES]
    return rows.select("window", "kind", *every)


UNNAMED = "window bigint, kind string, table string, " + ", ".join(f"{name} bigint" for name in MEASURES)
