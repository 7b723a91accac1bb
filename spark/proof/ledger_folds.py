"""What is new of a table for the ledger: silver's folds since its place, which records each took, and when bronze had
them.

All is told by the commits of silver and bronze; their positions say which fold took a record. A digest of the
quarantine says whether records that were counted as set aside have been redriven or given up since, and are to be
counted anew. Of bronze's appends only the newest are told apart; the time of an older one is null.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyspark.sql import Column as Expression
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from spark.proof.ledger_contract import Counted, LedgerSpec, LedgerState, LedgerTable
from spark.silver import quarantine_table
from spark.specs import SilverSpec
from spark.table.commit_metadata import TopicCommit, fold_silver, parse
from spark.table.delta_table import Commit, table_of
from spark.table.topic_commits import CommittedTopic

FIRST_LOOK, MOST_FOLDS = 50, 20_000
"""Commits of silver that are read; what is older than the most of them is one fold."""
NO_END = (1 << 63) - 1
FOLDS_AT_ONCE = 200
"""Folds per commit of the ledger: each is an element of the arrays that place a record."""


@dataclass(frozen=True)
class Fold:
    """One silver commit: what was folded after it, and when it was there."""

    version: int
    at: datetime
    operation_id: str
    bronze_version: int
    topics: dict[str, CommittedTopic]
    truncated: str | None
    snapshot: str | None
    late_events: int
    quarantined: int


@dataclass(frozen=True)
class FoldsToCount:
    """The folds to count next, oldest first. `start` is the ledger's place; None: from the very first record.

    `again` says that the ledger's own place is no longer in silver's history (a RESTORE): everything is counted anew.
    """

    folds: tuple[Fold, ...]
    start: Counted | None
    again: bool = False
    left: int = field(default=0)

    @property
    def last(self) -> Fold:
        """The fold that the ledger stands at afterwards."""
        return self.folds[-1]


def next_slice(silver_folds: Sequence[Fold], counted: Counted | None, *, again: bool = False) -> FoldsToCount | None:
    """The folds since the ledger's place; None when there is none, and nothing to count again."""
    if not silver_folds:
        return None
    if counted is not None and not again:
        counted_at = [i for i, f in enumerate(silver_folds) if f.operation_id == counted.operation_id]
        if counted_at:
            rest = silver_folds[counted_at[-1] + 1 :]
            return FoldsToCount(tuple(rest[:FOLDS_AT_ONCE]), counted, left=max(0, len(rest) - FOLDS_AT_ONCE)) if rest else None
        if silver_folds[0].version > counted.silver_version:
            # Older commits are gone from the log: what lies between is one fold.
            return FoldsToCount(tuple(silver_folds[:FOLDS_AT_ONCE]), counted, left=max(0, len(silver_folds) - FOLDS_AT_ONCE))
    if counted is not None:
        return FoldsToCount(tuple(silver_folds), None, again=True)
    return FoldsToCount(tuple(silver_folds[:FOLDS_AT_ONCE]), None, left=max(0, len(silver_folds) - FOLDS_AT_ONCE))


def folds(session: SparkSession, path: str, operation_id: str | None) -> list[Fold]:
    """Silver's folds, oldest first, as far back as to the one with this id; none: as far as the log reaches."""
    limit = FIRST_LOOK if operation_id else MOST_FOLDS
    while True:
        commits = table_of(path).history(limit)
        silver_folds = [fold for commit in commits if (fold := _fold(commit)) is not None]
        if len(commits) < limit or limit >= MOST_FOLDS or any(f.operation_id == operation_id for f in silver_folds):
            return sorted(silver_folds, key=lambda f: f.version)
        limit = min(limit * 10, MOST_FOLDS)


def _fold(commit: Commit) -> Fold | None:
    version, text = commit.version, commit.user_metadata
    data, folded = parse(text, "silver", version), fold_silver([(version, text)])
    if data is None or folded is None:
        return None
    late = int(data.get("counts", {}).get("late_events", 0))
    return Fold(
        version,
        commit.at,
        folded.operation_id,
        folded.bronze_version,
        folded.topics,
        folded.truncated,
        folded.snapshot,
        late,
        folded.quarantined,
    )


def epochs(cut: FoldsToCount) -> dict[str, list[int]]:
    """The incarnations of each topic that the slice holds records of, oldest first."""
    seen: dict[str, set[int]] = {}
    for states in ([cut.start.folded] if cut.start else []) + [f.topics for f in cut.folds]:
        for topic, state in states.items():
            seen.setdefault(topic, set()).add(state.epoch)
    return {topic: sorted(numbers) for topic, numbers in seen.items()}


def place_of_record() -> Expression:
    """A row's topic, epoch and partition as one text."""
    return sf.concat_ws("/", "topic", "epoch", "partition")


def ends(cut: FoldsToCount) -> dict[str, list[int]]:
    """By place, the offset up to which each fold had taken; the first element is that of the ledger's place."""
    states: list[dict[str, CommittedTopic]] = [cut.start.folded if cut.start else {}, *[f.topics for f in cut.folds]]
    places = sorted({(t, s.epoch, p) for folded in states for t, s in folded.items() for p in s.positions})
    return {f"{t}/{e}/{p}": [_end(folded.get(t), e, p) for folded in states] for t, e, p in places}


def _end(state: CommittedTopic | None, epoch: int, partition: int) -> int:
    if state is None or state.epoch < epoch:
        return 0
    return NO_END if state.epoch > epoch else state.positions.get(partition, 0)


def highest(cut: FoldsToCount) -> dict[str, list[str | None]]:
    """By place, the highest position that was folded before each fold."""
    states = [cut.start.folded if cut.start else {}, *[f.topics for f in cut.folds[:-1]]]
    places = ends(cut)
    by_place = {}
    for key in places:
        topic, epoch, partition = key.rsplit("/", 2)
        by_place[key] = [_highest(folded.get(topic), int(epoch), int(partition)) for folded in states]
    return by_place


def last_counted(cut: FoldsToCount) -> dict[str, str | None]:
    """By place, the position of the last record that was counted before these folds."""
    by_place, start = {}, cut.start.folded if cut.start else {}
    for key in ends(cut):
        topic, epoch, partition = key.rsplit("/", 2)
        state = start.get(topic)
        by_place[key] = state.last_position.get(int(partition)) if state is not None and state.epoch == int(epoch) else None
    return by_place


def _highest(state: CommittedTopic | None, epoch: int, partition: int) -> str | None:
    return state.max_position.get(partition) if state is not None and state.epoch == epoch else None


def fold_number(cut: FoldsToCount) -> Expression:
    """The number of the fold that took the row, from 0; -1 and lower: counted before; null: not folded yet."""
    arrays = ends(cut)
    pairs = [x for key, offsets in arrays.items() for x in (sf.lit(key), sf.array(*map(sf.lit, offsets)))]
    if not pairs:
        return sf.lit(None).cast("int")
    ends_here = sf.create_map(*pairs)[place_of_record()]
    if len(cut.folds) == 1:
        offset = sf.col("offset")
        return sf.when(offset < ends_here[0], -1).when(offset < ends_here[1], 0)
    passed = sf.size(sf.filter(ends_here, lambda end: end <= sf.col("offset")))
    return sf.when(passed <= len(cut.folds), passed - 1)


def by_fold(values: Sequence[Any], fold: Expression) -> Expression:
    """The value of the row's fold."""
    return sf.get(sf.array(*[sf.lit(v) for v in values]), fold)


def quarantine_digest(session: SparkSession, spec: SilverSpec, counted: Counted) -> str:
    """A digest of the open and given up records below the ledger's place, each with its state; empty where there are none.

    Only of a table that has ever set records aside.

    What was counted as quarantined may be something else by now: redriven, given up, or found since. A record that was
    redriven is no part of it: it left the open ones then, and may leave the quarantine later without a new fate.
    """
    state = sf.struct(sf.col("dropped_at").isNotNull(), sf.col("redriven_at").isNotNull())
    standing = quarantine_table.table(session, spec).where("redriven_at IS NULL OR dropped_at IS NOT NULL")
    below = standing.where(fold_number(FoldsToCount((), counted)) == -1)
    one = sf.xxhash64("topic", "epoch", "partition", "offset", state)
    row = below.agg(sf.count("*").alias("n"), sf.bit_xor(one).alias("digest")).collect()[0]
    return f"{row.n}:{row.digest}" if row.n else ""


@dataclass(frozen=True)
class TableSlice:
    """The folds to count of one table. `before` is the ledger's place; `aside`: silver has ever set records aside."""

    table: LedgerTable
    cut: FoldsToCount
    before: Counted | None
    aside: bool

    @property
    def name(self) -> str:
        """The table's short name."""
        return self.table.name

    @property
    def records(self) -> int:
        """So many, about: all that silver had folded less what was counted."""
        counted = sum(state.records for state in self.cut.start.folded.values()) if self.cut.start else 0
        return sum(state.records for state in self.cut.last.topics.values()) - counted


def table_slice(session: SparkSession, spec: LedgerSpec, table: LedgerTable, state: LedgerState) -> TableSlice | None:
    """The next slice of a table; None where nothing is new."""
    silver, before = table.silver, state.tables.get(table.name)
    silver_folds = _folds(session, table, before if not spec.again else None)
    # Silver says how many records it ever set aside: of most tables nothing needs to be looked up.
    aside = bool(silver_folds and silver_folds[-1].quarantined)
    again = False
    if before is not None:
        # A snapshot or a TRUNCATE takes rows out of a table without a key: their events were applied, and are not any more.
        floors = () if silver.keys or not silver_folds else (silver_folds[-1].snapshot, silver_folds[-1].truncated)
        lost_rows = bool(floors) and floors != (before.snapshot, before.truncated)
        again = spec.again or lost_rows or (aside and quarantine_digest(session, silver, before) != before.unsettled)
    if again and not spec.again:
        silver_folds = _folds(session, table, None)
    cut = next_slice(silver_folds, before, again=again)
    return None if cut is None else TableSlice(table, cut, before, aside)


def _folds(session: SparkSession, table: LedgerTable, before: Counted | None) -> list[Fold]:
    """Silver's folds up to the cut, back to the ledger's place; none where another run has counted beyond the cut."""
    silver_folds = folds(session, table.silver.path, before.operation_id if before else None)
    if table.upto is None:
        return silver_folds
    beyond = [fold.operation_id for fold in silver_folds if fold.version > table.upto]
    return [] if before is not None and before.operation_id in beyond else [f for f in silver_folds if f.version <= table.upto]


MOST_APPENDS = 400
"""Appends that are told apart; before them the hop's time is not told."""
TopicShares = tuple[datetime, dict[str, TopicCommit]]


def newest_appends(session: SparkSession, path: str) -> list[TopicShares]:
    """The newest appends, oldest first."""
    appends: list[TopicShares] = []
    for commit in reversed(table_of(path).history(MOST_APPENDS)):
        data = parse(commit.user_metadata, "bronze", commit.version)
        if data is not None and data["topics"]:
            appends.append((commit.at, {t: TopicCommit.from_dict(s) for t, s in data["topics"].items()}))
    return appends


@dataclass(frozen=True)
class AppendTimes:
    """By place (place_of_record), the first offset that is known of, and where each append ended, and when it came."""

    first: dict[str, int]
    spans: dict[str, list[tuple[int, datetime]]]


def append_times(appends: list[TopicShares], table: str, cut: FoldsToCount) -> AppendTimes:
    """Of one table's records that are not counted yet."""
    start = cut.start.folded if cut.start else {}
    times = AppendTimes({}, {})
    for at, topics in appends:
        for topic, share in topics.items():
            if share.table != table:
                continue
            for partition, (low, high) in share.ranges.items():
                key = f"{topic}/{share.epoch}/{partition}"
                folded = start.get(topic)
                done = folded.positions.get(partition, 0) if folded and folded.epoch == share.epoch else 0
                if high > done:
                    times.first.setdefault(key, low)
                    times.spans.setdefault(key, []).append((high, at))
    return times


def oldest_record(appends: list[TopicShares], table: str, cut: FoldsToCount) -> int | None:
    """Kafka's lowest time, in microseconds, of what was appended of a table since the ledger's place; None where these appends do
    not tell it of every record."""
    begun = append_times(appends, table, cut).first
    if any(offsets[-1] > offsets[0] and begun.get(key, NO_END) > offsets[0] for key, offsets in ends(cut).items()):
        return None
    start = cut.start.folded if cut.start else {}

    def is_new(share: TopicCommit, counted: CommittedTopic | None) -> bool:
        if counted is None or counted.epoch != share.epoch:
            return True
        return any(high > counted.positions.get(partition, 0) for partition, (_, high) in share.ranges.items())

    shares = [
        share
        for _, topics in appends
        for topic, share in topics.items()
        if share.table == table and share.records and is_new(share, start.get(topic))
    ]
    times = [share.min_timestamp for share in shares]
    return None if None in times else min(filter(None, times), default=None)


def time_of_append(appends: list[TopicShares], table: str, cut: FoldsToCount) -> Expression:
    """The time of the row's append; null where that is no longer known."""
    appended = append_times(appends, table, cut)
    spans, begins = appended.spans, appended.first
    if not spans:
        return sf.lit(None).cast("timestamp")
    ends = sf.create_map(*[x for k, s in spans.items() for x in (sf.lit(k), sf.array(*[sf.lit(e) for e, _ in s]))])[
        place_of_record()
    ]
    times = sf.create_map(*[x for k, s in spans.items() for x in (sf.lit(k), sf.array(*[sf.lit(t) for _, t in s]))])[
        place_of_record()
    ]
    first = sf.create_map(*[x for k, b in begins.items() for x in (sf.lit(k), sf.lit(b))])[place_of_record()]
    passed = sf.size(sf.filter(ends, lambda end: end <= sf.col("offset")))
    return sf.when(sf.col("offset") >= first, sf.get(times, passed))
