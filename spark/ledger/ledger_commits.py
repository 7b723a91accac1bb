"""What a ledger has counted, kept in its own commits: pure data, no Spark.

Each commit is cumulative. The place of a table is a fold of its silver table: everything that silver had folded by then
is in the ledger, in every link, and nothing else is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from spark.delta.commits import parse
from spark.delta.topic_commits import CommittedTopic
from spark.errors import HistoryTooShortError


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
        known = dict(data)
        known["folded"] = {t: CommittedTopic.from_dict(s) for t, s in data["folded"].items()}
        for name in ("mirror_positions", "topic_positions", "missing"):
            known[name] = {int(p): o for p, o in data[name].items()}
        known["topic_ids"] = tuple(data["topic_ids"])
        return cls(**known)


@dataclass(frozen=True)
class LedgerState:
    """The ledger's newest commit of ours."""

    version: int
    tables: dict[str, Counted]


def ledger_metadata(operation_id: str, tables: Mapping[str, Counted]) -> str:
    """The userMetadata of a ledger commit: afterwards everything up to `tables` is counted."""
    data = {
        "cdc_assets": 1,
        "kind": "ledger",
        "operation_id": operation_id,
        "tables": {t: c.to_dict() for t, c in tables.items()},
    }
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


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
