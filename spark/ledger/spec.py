"""What the ledger job takes: frozen dataclasses that travel as JSON, as those of the other jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spark.specs import JsonSpec, SilverSpec, TopicRange


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
