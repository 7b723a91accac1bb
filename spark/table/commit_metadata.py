"""Commit metadata: what a Delta commit of ours says about the records it holds. Pure Python, no Spark.

A bronze append carries `topics` (its own ranges) and `committed`: everything up to and including `base_version`,
the newest version its job had seen, plus its own ranges. Appends of different tables may run at the same time, so
commits between `base_version` and the append itself are not in its `committed`. A reader therefore takes the newest
commit of ours and adds the `topics` of all our commits after its `base_version` (`fold`). Each commit being
cumulative, a reader needs a few commits and not the whole log.

A topic is its (name, epoch): a higher epoch replaces what a lower one had committed; within one epoch the topic id
never changes. Counts and positions are those of the epoch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from spark.errors import HistoryTooShortError, TableStopError, other_format
from spark.table.topic_commits import CommittedTopic, TopicCommit

__all__ = [
    "Committed",
    "CommittedTopic",
    "Folded",
    "TopicCommit",
    "bronze_metadata",
    "carries",
    "fold",
    "fold_silver",
    "metadata_text",
    "parse",
    "silver_metadata",
    "surviving",
]

FORMAT = 1


def metadata_text(kind: str, facts: Mapping[str, Any]) -> str:
    """The userMetadata of a commit of ours: what `kind` of table it writes, and what it says of it."""
    return json.dumps({"cdc_assets": FORMAT, "kind": kind, **facts}, sort_keys=True, separators=(",", ":"))


RESTORED = metadata_text("restore", {})
"""What `surviving` gives as the metadata of a RESTORE."""


@dataclass(frozen=True)
class Committed:
    """The fold of a log: `version` is the newest version that was looked at, -1 for none."""

    version: int
    topics: dict[str, CommittedTopic]
    oldest_seen: int = -1
    appends: tuple[tuple[int, dict[str, TopicCommit]], ...] = ()
    """The appends that were read, newest first: `(version, {topic: share})`."""
    turn: int = 0
    """The number of the next append as a transaction of Delta's: of two with one number, one is refused or left out.

    One above the version of our newest commit. A RESTORE counts as one: Delta keeps the numbers through it, and would leave
    out all that follows.
    """

    def position(self, topic: str, partition: int) -> int | None:
        """The next offset to commit, None when nothing of the topic is committed."""
        state = self.topics.get(topic)
        return None if state is None else state.positions.get(partition, 0)

    def of_table(self, table: str) -> dict[str, CommittedTopic]:
        """The topics that feed a table."""
        return {topic: state for topic, state in self.topics.items() if state.table == table}


def carries(user_metadata: str | None, operation_id: str) -> bool:
    """Whether a commit with this metadata is the one of that operation."""
    return f'"operation_id":"{operation_id}"' in (user_metadata or "")


def bronze_metadata(operation_id: str, base: Committed, topics: Mapping[str, TopicCommit]) -> str:
    """The userMetadata of an append that builds on `base`."""
    committed = dict(base.topics)
    for topic, share in topics.items():
        committed[topic] = share.after(committed.get(topic))
    facts = {
        "operation_id": operation_id,
        "base_version": base.version,
        "topics": {t: s.to_dict() for t, s in topics.items()},
        "committed": {t: s.to_dict() for t, s in committed.items()},
    }
    return metadata_text("bronze", facts)


def fold(commits: Iterable[tuple[int, str | None]]) -> Committed:
    """What a bronze log has committed, from any newest part of its history, in any order.

    Raises HistoryTooShortError when that part does not reach back far enough: give more of it.
    """
    seen = sorted(((int(v), m) for v, m in commits), key=lambda c: c[0], reverse=True)
    if not seen:
        return Committed(version=-1, topics={})
    ours = [(v, data) for v, text in seen if (data := parse(text, "bronze", v)) is not None]
    turn = max([v + 1 for v, text in seen if text == RESTORED] + [v + 1 for v, _ in ours], default=0)
    tip, oldest = seen[0][0], seen[-1][0]
    if not ours:
        if oldest > 0:
            raise HistoryTooShortError(f"no bronze commit among versions {oldest}..{tip}; read further back")
        return Committed(version=tip, topics={}, oldest_seen=oldest, turn=turn)
    newest_version, newest = ours[0]
    base = newest["base_version"]
    if oldest > base + 1:
        raise HistoryTooShortError(f"versions {base + 1}..{oldest - 1} are missing from the history; read further back")
    appends = tuple((v, {t: TopicCommit.from_dict(s) for t, s in d["topics"].items()}) for v, d in ours)
    topics = {t: CommittedTopic.from_dict(s) for t, s in newest["committed"].items()}
    for version, shares in reversed(appends):
        if base < version < newest_version:
            for topic, share in shares.items():
                topics[topic] = share.after(topics.get(topic))
    return Committed(tip, topics, oldest_seen=oldest, appends=appends, turn=turn)


@dataclass(frozen=True)
class Folded:
    """What silver has folded: up to which bronze version, and each topic's state there."""

    bronze_version: int
    topics: dict[str, CommittedTopic]
    version: int = -1
    operation_id: str = ""
    snapshot: str | None = None
    """Tables without a key: the position of the newest full snapshot that replaced what was below it."""
    truncated: str | None = None
    """The position of the newest TRUNCATE: what comes later from below it is obsolete."""
    quarantined: int = 0
    """Records ever put into quarantine; 0 saves looking there."""
    grown: str | None = None
    """What had been folded when partitions came to the topics, while not all of them are past it: see
    spark.silver.keyed_batch.
    """
    settled: int = 0
    """Histories: the newest mark in the quarantine that is heeded (spark.silver.quarantine_table.last_settlement)."""
    waiting: tuple[str, ...] = ()
    """Histories: the writes of creates whose row under the old key is not known yet (spark.silver.key_changes.waiting_writes)."""

    @property
    def highest(self) -> str:
        """The highest position that silver has folded."""
        return max((p for state in self.topics.values() for p in state.max_position.values()), default="")


_FACTS = ("snapshot", "truncated", "quarantined", "grown", "settled", "waiting")


def silver_metadata(
    operation_id: str, folded: Folded, counts: Mapping[str, int], *, replay: Mapping[str, Any] | None = None
) -> str:
    """The userMetadata of a silver commit: afterwards everything in `folded` is in the table. `replay`: it has replaced what was
    there, and this tells which versions that was (spark.upkeep.replay_job)."""
    facts = {
        "operation_id": operation_id,
        "bronze_version": folded.bronze_version,
        "folded": {t: s.to_dict() for t, s in folded.topics.items()},
        "max_position": {t: s.to_dict()["max_position"] for t, s in folded.topics.items()},
        **{name: getattr(folded, name) for name in _FACTS},
        "counts": dict(counts),
        **({"replay": dict(replay)} if replay else {}),
    }
    return metadata_text("silver", facts)


def fold_silver(commits: Iterable[tuple[int, str | None]]) -> Folded | None:
    """What a silver table has folded: its newest commit of ours says it all. None when there is none."""
    for version, text in sorted(commits, key=lambda c: c[0], reverse=True):
        data = parse(text, "silver", version)
        if data is not None:
            return Folded(
                bronze_version=data["bronze_version"],
                topics={t: CommittedTopic.from_dict(s) for t, s in data["folded"].items()},
                version=version,
                operation_id=data["operation_id"],
                **{name: data[name] for name in _FACTS if name != "waiting"},
                waiting=tuple(data["waiting"]),
            )
    return None


def surviving(entries: Iterable[Mapping[str, Any]]) -> list[tuple[int, str | None]]:
    """`(version, userMetadata)` of the history entries that a RESTORE has not undone.

    An entry is a commit as Delta reports it: version, operation, operationParameters, userMetadata. After a RESTORE the
    table is as it was at the version restored, so what later commits said about it no longer holds. Its own text is RESTORED.
    """
    kept: list[tuple[int, str | None]] = []
    ceiling: int | None = None
    for entry in sorted(entries, key=lambda e: int(e["version"]), reverse=True):
        version = int(entry["version"])
        if ceiling is not None and version > ceiling:
            kept.append((version, None))
            continue
        if entry.get("operation") == "RESTORE":
            ceiling = _target_of_restore(version, entry.get("operationParameters") or {})
            kept.append((version, RESTORED))
            continue
        kept.append((version, entry.get("userMetadata")))
    return kept


def _target_of_restore(version: int, parameters: Mapping[str, Any]) -> int:
    target = parameters.get("version")
    if target in (None, "", "null"):
        raise TableStopError(
            f"version {version} restored the table to a point in time, which does not say what it holds now; restore it "
            "to a version instead (RESTORE ... TO VERSION AS OF)"
        )
    return int(str(target))


def parse(text: str | None, kind: str, version: int) -> dict[str, Any] | None:
    """The metadata if it is ours and of this kind; anything else that users write there is none of our business."""
    if not text or not text.startswith("{"):
        return None
    try:
        data = json.loads(text)
    except json.JSONDecodeError:
        return None
    if not isinstance(data, dict) or "cdc_assets" not in data or data.get("kind") != kind:
        return None
    if refusal := other_format(f"version {version}", f"a {kind} commit", data["cdc_assets"], FORMAT):
        raise TableStopError(refusal)
    return data
