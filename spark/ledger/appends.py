"""When bronze had each record: the time of the append that holds its offset, from bronze's own commits."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column as Expression
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from spark.delta.commits import TopicCommit, parse
from spark.delta.log import history_rows
from spark.ledger.folds import FoldsToCount, place

AT_MOST = 400
"""Appends that are told apart; before them the hop's time is not told."""
Append = tuple[datetime, dict[str, TopicCommit]]


def appends(session: SparkSession, path: str) -> list[Append]:
    """The newest appends, oldest first."""
    found: list[Append] = []
    for row, text in reversed(history_rows(session, path, AT_MOST, "timestamp")):
        data = parse(text, "bronze", row.version)
        if data is not None and data["topics"]:
            found.append((row.timestamp, {t: TopicCommit.from_dict(s) for t, s in data["topics"].items()}))
    return found


def time_of_append(found: list[Append], table: str, cut: FoldsToCount) -> Expression:
    """The time of the row's append; null where that is no longer known."""
    start = cut.start.folded if cut.start else {}
    spans: dict[str, list[tuple[int, datetime]]] = {}
    begins: dict[str, int] = {}
    for at, topics in found:
        for topic, share in topics.items():
            if share.table != table:
                continue
            for partition, (low, high) in share.ranges.items():
                key = f"{topic}/{share.epoch}/{partition}"
                known = start.get(topic)
                done = known.positions.get(partition, 0) if known and known.epoch == share.epoch else 0
                if high > done:
                    begins.setdefault(key, low)
                    spans.setdefault(key, []).append((high, at))
    if not spans:
        return sf.lit(None).cast("timestamp")
    ends = sf.create_map(*[x for k, s in spans.items() for x in (sf.lit(k), sf.array(*[sf.lit(e) for e, _ in s]))])[place()]
    times = sf.create_map(*[x for k, s in spans.items() for x in (sf.lit(k), sf.array(*[sf.lit(t) for _, t in s]))])[place()]
    first = sf.create_map(*[x for k, b in begins.items() for x in (sf.lit(k), sf.lit(b))])[place()]
    passed = sf.size(sf.filter(ends, lambda end: end <= sf.col("offset")))
    return sf.when(sf.col("offset") >= first, sf.get(times, passed))
