"""The event ledger's contract: its words, what its job takes as JSON, and what its commits say has been counted. Pure
data, no Spark.

Each commit is cumulative. The place of a table is a fold of its silver table: everything that silver had folded by
then is in the ledger, in every link, and nothing else is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from spark.errors import HistoryTooShortError
from spark.specs import JsonSpec, SilverSpec, TopicRange
from spark.table.commit_metadata import metadata_text, parse
from spark.table.topic_commits import CommittedTopic

WINDOW = 60
"""Seconds of the windows that are kept; an hour and a day are sums of them."""
EARLY, ON_TIME, LATE, TOO_LATE = "early", "on_time", "late", "too_late"
FATES = ("applied", "superseded", "older", "ignored", "quarantined", "redriven", "dropped", "unaccounted")
LINKS = ("topic", "mirror", "bronze")
HOPS = ("capture", "bronze", "silver")


@dataclass(frozen=True)
class LedgerTable:
    """One table. `topic` and `mirror` are what the two topics hold now: begin and last stable offset per partition.

    Without `topic` the hop is not counted (the topic is not there, or not to be reached); a source whose topics are on
    the lake's own cluster has only `mirror`. `compacted` names a topic of the two that is compacted: it cannot be counted.

    `upto` is the version of silver up to which all links are counted, read before the topics' ends: what is folded behind
    it may not be in those ends. None: as far as silver has folded when the job runs.
    """

    silver: SilverSpec
    topic: TopicRange | None = None
    mirror: TopicRange | None = None
    compacted: str = ""
    upto: int | None = None

    @property
    def name(self) -> str:
        """The table's short name."""
        return self.silver.table


@dataclass(frozen=True)
class LedgerSpec(JsonSpec):
    """One run of the ledger of one source.

    `allowed_lateness` (seconds) is how long after its end a window may still change without a warning; it is also how
    long an idle table's newest window stays open. `again` counts all events anew, in the topics too where they hold every
    record, and books the differences. `core_login` and `lake_login` are paths as BronzeSpec's `login`.
    """

    source: str
    path: str
    bronze_path: str
    tables: tuple[LedgerTable, ...]
    core_bootstrap: str = ""
    lake_bootstrap: str = ""
    allowed_lateness: int = 3600
    again: bool = False
    kafka_options: dict[str, str] = field(default_factory=dict)
    core_login: str = ""
    lake_login: str = ""

    @classmethod
    def from_json(cls, text: str) -> LedgerSpec:
        """Read back what to_json wrote."""
        data: dict[str, Any] = json.loads(text)
        data["tables"] = tuple(_table(t) for t in data["tables"])
        return cls(**data)


def _table(data: Mapping[str, Any]) -> LedgerTable:
    def topic(value: object) -> TopicRange | None:
        return None if value is None else TopicRange.from_dict(value)

    silver = SilverSpec.from_json(json.dumps(data["silver"]))
    ends = topic(data.get("topic")), topic(data.get("mirror"))
    return LedgerTable(silver, *ends, str(data.get("compacted", "")), data.get("upto"))


@dataclass(frozen=True)
class Counted:
    """One table's place in the ledger.

    `watermark` is the highest event time counted (microseconds). `mirror_positions` and `topic_positions` are the offsets
    up to which the records of both topics are counted, `topic_ids` the incarnations of core and mirrored topic;
    `uncounted` says why the topics can no longer be counted, empty when they can. `missing` are, by partition, the records of
    the mirror for which the core topic had none when they were counted.
    """

    silver_version: int
    operation_id: str
    folded: dict[str, CommittedTopic]
    truncated: str | None = None
    snapshot: str | None = None
    watermark: int = 0
    mirror_positions: dict[int, int] = field(default_factory=dict)
    topic_positions: dict[int, int] = field(default_factory=dict)
    topic_ids: tuple[str, str] = ("", "")
    uncounted: str = ""
    missing: dict[int, int] = field(default_factory=dict)
    unsettled: str = ""
    """Digest of the records below this place that were in quarantine, open or given up, when it was counted."""

    def to_dict(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "silver_version": self.silver_version,
            "operation_id": self.operation_id,
            "folded": {t: s.to_dict() for t, s in self.folded.items()},
            "truncated": self.truncated,
            "snapshot": self.snapshot,
            "watermark": self.watermark,
            "mirror_positions": {str(p): o for p, o in sorted(self.mirror_positions.items())},
            "topic_positions": {str(p): o for p, o in sorted(self.topic_positions.items())},
            "topic_ids": list(self.topic_ids),
            "uncounted": self.uncounted,
            "missing": {str(p): n for p, n in sorted(self.missing.items())},
            "unsettled": self.unsettled,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Counted:
        """From its JSON object."""
        values = dict(data)
        values["folded"] = {t: CommittedTopic.from_dict(s) for t, s in data["folded"].items()}
        for name in ("mirror_positions", "topic_positions", "missing"):
            values[name] = {int(p): o for p, o in data[name].items()}
        values["topic_ids"] = tuple(data["topic_ids"])
        return cls(**values)


@dataclass(frozen=True)
class LedgerState:
    """The ledger's newest commit of ours."""

    version: int
    tables: dict[str, Counted]


def ledger_metadata(operation_id: str, tables: Mapping[str, Counted]) -> str:
    """The userMetadata of a ledger commit: afterwards everything up to `tables` is counted."""
    return metadata_text("ledger", {"operation_id": operation_id, "tables": {t: c.to_dict() for t, c in tables.items()}})


def fold_ledger(commits: Iterable[tuple[int, str | None]]) -> LedgerState:
    """What a ledger has counted; version -1 where there is none.

    Raises:
        HistoryTooShortError: these commits are not all, and none of them says it: give more.
    """
    newest = oldest = -1
    for version, text in sorted(commits, key=lambda c: c[0], reverse=True):
        newest, oldest = max(newest, version), version
        data = parse(text, "ledger", version)
        if data is not None:
            return LedgerState(newest, {t: Counted.from_dict(c) for t, c in data["tables"].items()})
    if oldest > 0:
        raise HistoryTooShortError(f"no commit of a ledger among versions {oldest}..{newest}; read further back")
    return LedgerState(newest, {})
