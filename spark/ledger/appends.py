"""When bronze had each record: the time of the append that holds its offset, from bronze's own commits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import Column as Expression
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from spark.delta.commits import TopicCommit, parse
from spark.delta.log import commit_times
from spark.delta.topic_commits import CommittedTopic
from spark.ledger.folds import NO_END, FoldsToCount, ends, place

AT_MOST = 400
"""Appends that are told apart; before them the hop's time is not told."""
Append = tuple[datetime, dict[str, TopicCommit]]


def appends(session: SparkSession, path: str) -> list[Append]:
    """The newest appends, oldest first."""
    found: list[Append] = []
    for commit in reversed(commit_times(session, path, AT_MOST)):
        data = parse(commit.user_metadata, "bronze", commit.version)
        if data is not None and data["topics"]:
            found.append((commit.at, {t: TopicCommit.from_dict(s) for t, s in data["topics"].items()}))
    return found


@dataclass(frozen=True)
class AppendTimes:
    """By place (folds.place), the first offset that is known of, and where each append ended, and when it came."""

    first: dict[str, int]
    spans: dict[str, list[tuple[int, datetime]]]


def append_times(found: list[Append], table: str, cut: FoldsToCount) -> AppendTimes:
    """Of one table's records that are not counted yet."""
    start = cut.start.folded if cut.start else {}
    times = AppendTimes({}, {})
    for at, topics in found:
        for topic, share in topics.items():
            if share.table != table:
                continue
            for partition, (low, high) in share.ranges.items():
                key = f"{topic}/{share.epoch}/{partition}"
                known = start.get(topic)
                done = known.positions.get(partition, 0) if known and known.epoch == share.epoch else 0
                if high > done:
                    times.first.setdefault(key, low)
                    times.spans.setdefault(key, []).append((high, at))
    return times


def oldest_record(found: list[Append], table: str, cut: FoldsToCount) -> int | None:
    """Kafka's lowest time, in microseconds, of what was appended of a table since the ledger's place; None where these appends do
    not tell it of every record."""
    begun = append_times(found, table, cut).first
    if any(offsets[-1] > offsets[0] and begun.get(key, NO_END) > offsets[0] for key, offsets in ends(cut).items()):
        return None
    start = cut.start.folded if cut.start else {}
    shares = [
        share
        for _, topics in found
        for topic, share in topics.items()
        if share.table == table and share.records and _is_new(share, start.get(topic))
    ]
    times = [share.min_timestamp for share in shares]
    return None if None in times else min(filter(None, times), default=None)


def _is_new(share: TopicCommit, counted: CommittedTopic | None) -> bool:
    if counted is None or counted.epoch != share.epoch:
        return True
    return any(high > counted.positions.get(partition, 0) for partition, (_, high) in share.ranges.items())


def time_of_append(found: list[Append], table: str, cut: FoldsToCount) -> Expression:
    """The time of the row's append; null where that is no longer known."""
    known = append_times(found, table, cut)
    spans, begins = known.spans, known.first
    if not spans:
        return sf.lit(None).cast("timestamp")
    ends = sf.create_map(*[x for k, s in spans.items() for x in (sf.lit(k), sf.array(*[sf.lit(e) for e, _ in s]))])[place()]
    times = sf.create_map(*[x for k, s in spans.items() for x in (sf.lit(k), sf.array(*[sf.lit(t) for _, t in s]))])[place()]
    first = sf.create_map(*[x for k, b in begins.items() for x in (sf.lit(k), sf.lit(b))])[place()]
    passed = sf.size(sf.filter(ends, lambda end: end <= sf.col("offset")))
    return sf.when(sf.col("offset") >= first, sf.get(times, passed))
