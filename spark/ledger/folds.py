"""The folds of a silver table that a ledger has not counted: which records each took, by the positions in its commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyspark.sql import Column as Expression
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from spark.delta.commits import fold_silver, parse
from spark.delta.log import TimedCommit, commit_times
from spark.delta.topic_commits import CommittedTopic
from spark.ledger.ledger_commits import Counted

FIRST_LOOK, AT_MOST = 50, 20_000
"""Commits of silver that are read; what is older than the most of them is one fold."""
NO_END = (1 << 63) - 1
AT_ONCE = 200
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


def next_slice(found: Sequence[Fold], counted: Counted | None, *, again: bool = False) -> FoldsToCount | None:
    """The folds since the ledger's place; None when there is none, and nothing to count again."""
    if not found:
        return None
    if counted is not None and not again:
        known = [i for i, f in enumerate(found) if f.operation_id == counted.operation_id]
        if known:
            rest = found[known[-1] + 1 :]
            return FoldsToCount(tuple(rest[:AT_ONCE]), counted, left=max(0, len(rest) - AT_ONCE)) if rest else None
        if found[0].version > counted.silver_version:
            # Older commits are gone from the log: what lies between is one fold.
            return FoldsToCount(tuple(found[:AT_ONCE]), counted, left=max(0, len(found) - AT_ONCE))
    if counted is not None:
        return FoldsToCount(tuple(found), None, again=True)
    return FoldsToCount(tuple(found[:AT_ONCE]), None, left=max(0, len(found) - AT_ONCE))


def folds(session: SparkSession, path: str, operation_id: str | None) -> list[Fold]:
    """Silver's folds, oldest first, as far back as to the one with this id; none: as far as the log reaches."""
    limit = FIRST_LOOK if operation_id else AT_MOST
    while True:
        commits = commit_times(session, path, limit)
        found = [fold for commit in commits if (fold := _fold(commit)) is not None]
        if len(commits) < limit or limit >= AT_MOST or any(f.operation_id == operation_id for f in found):
            return sorted(found, key=lambda f: f.version)
        limit = min(limit * 10, AT_MOST)


def _fold(commit: TimedCommit) -> Fold | None:
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
    return {topic: sorted(found) for topic, found in seen.items()}


def place() -> Expression:
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
    found = {}
    for key in places:
        topic, epoch, partition = key.rsplit("/", 2)
        found[key] = [_highest(folded.get(topic), int(epoch), int(partition)) for folded in states]
    return found


def last_counted(cut: FoldsToCount) -> dict[str, str | None]:
    """By place, the position of the last record that was counted before these folds."""
    found, start = {}, cut.start.folded if cut.start else {}
    for key in ends(cut):
        topic, epoch, partition = key.rsplit("/", 2)
        state = start.get(topic)
        found[key] = state.last_position.get(int(partition)) if state is not None and state.epoch == int(epoch) else None
    return found


def _highest(state: CommittedTopic | None, epoch: int, partition: int) -> str | None:
    return state.max_position.get(partition) if state is not None and state.epoch == epoch else None


def number(cut: FoldsToCount) -> Expression:
    """The number of the fold that took the row, from 0; -1 and lower: counted before; null: not folded yet."""
    arrays = ends(cut)
    pairs = [x for key, offsets in arrays.items() for x in (sf.lit(key), sf.array(*map(sf.lit, offsets)))]
    if not pairs:
        return sf.lit(None).cast("int")
    known = sf.create_map(*pairs)[place()]
    if len(cut.folds) == 1:
        offset = sf.col("offset")
        return sf.when(offset < known[0], -1).when(offset < known[1], 0)
    passed = sf.size(sf.filter(known, lambda end: end <= sf.col("offset")))
    return sf.when(passed <= len(cut.folds), passed - 1)


def by_fold(values: Sequence[Any], fold: Expression) -> Expression:
    """The value of the row's fold."""
    return sf.get(sf.array(*[sf.lit(v) for v in values]), fold)
