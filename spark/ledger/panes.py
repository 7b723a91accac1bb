"""The ledger's rows: what one run adds to each window, by op, and the trigger that it came by."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.ledger.terms import FATES, HOPS, LINKS
from spark.ledger.transport import Transport

COUNTS = (*LINKS, *FATES)
SUMS = tuple(f"{hop}_{part}" for hop in HOPS for part in ("n", "ms_sum"))
MAXIMA = ("late_by_ms_max", *[f"{hop}_ms_max" for hop in HOPS])
SCHEMA = "table string, window_start timestamp, op string, pane string, counted_at timestamp, " + ", ".join(
    f"{name} bigint" for name in (*COUNTS, *SUMS, *MAXIMA)
)
COLUMNS = tuple(part.split()[0] for part in SCHEMA.split(", "))
MEASURES = (*COUNTS, *SUMS, *MAXIMA, "newest")


def wide(counted: DataFrame, fates: DataFrame, moved: Transport) -> DataFrame:
    """One row per window and kind of a table; `topic` and `mirror` are null where they could not be counted."""
    parts = [counted, fates.select("window", "kind", *[_of_fate(name) for name in FATES])]
    links = {"mirror": moved.mirror, "topic": moved.topic}
    parts += [frame.select("window", "kind", sf.col("n").alias(name)) for name, frame in links.items() if frame is not None]
    known = {*counted.columns, *FATES, *[name for name, frame in links.items() if frame is not None]}
    return _summed(reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts), known)


def _of_fate(name: str) -> Expression:
    return sf.when(sf.col("fate") == name, sf.col("n")).alias(name)


def _summed(rows: DataFrame, known: set[str]) -> DataFrame:
    def value(name: str) -> Expression:
        if name not in known:
            return sf.lit(None).cast("bigint").alias(name)
        if name in (*MAXIMA, "newest"):
            return sf.max(name).cast("bigint").alias(name)
        return sf.coalesce(sf.sum(name), sf.lit(0)).cast("bigint").alias(name)

    return rows.groupBy("window", "kind").agg(*[value(name) for name in MEASURES])


def booked(session: SparkSession, path: str, table: str) -> DataFrame:
    """What the ledger has said of a table so far, to be taken back: negative numbers of bronze and of the fates."""
    rows = session.read.format("delta").load(path).where(sf.col("table") == table)
    seconds = sf.unix_seconds("window_start").alias("window")
    back = rows.groupBy(seconds, sf.col("op").alias("kind")).agg(*[(-sf.sum(n)).alias(n) for n in ("bronze", *FATES)])
    return back.where(sf.expr(" OR ".join(f"{n} <> 0" for n in ("bronze", *FATES))))


def difference(new: DataFrame, back: DataFrame) -> DataFrame:
    """What a count anew adds to what is booked: windows without a difference are left out."""
    named = ["window", "kind", "bronze", *FATES]
    kept = new.select(*named, "newest")
    rows = _summed(kept.unionByName(back, allowMissingColumns=True), {*named, "newest"})
    changed = sf.expr(" OR ".join(f"{n} <> 0" for n in ("bronze", *FATES)))
    return rows.where(changed)


def merged(*parts: DataFrame) -> DataFrame:
    """The sum of rows with different measures; a measure that none of them has is null."""
    known = {c for part in parts for c in part.columns if c not in ("window", "kind")}
    return _summed(reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts), known)


UNNAMED = "window bigint, kind string, table string, " + ", ".join(f"{name} bigint" for name in MEASURES)
