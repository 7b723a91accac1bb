"""What is asked of a restore, and what became of each table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cdc_assets import names
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.object_store import ObjectStore
from cdc_assets.restore.backed_up_table import BackedUpTable
from cdc_assets.restore.restore_point import RestorePoint, WholeBackup
from spark.delta.topic_commits import CommittedTopic
from spark.replay.wanted_keys import ALL_KEYS, WantedKeys

RESTORED, THERE, EMPTY, DAMAGED = "restored", "there", "empty", "damaged"
"""Outcomes: made again; was there before, as it was restored once; there is no backup; left out."""


@dataclass(frozen=True)
class RestoreRequest:
    """What of a source is restored, from where, and into which lake.

    `points`, by table name, say how far; all that there is without. `skip_damaged` restores a table without its damaged objects.
    `is_successor`: the lake's next backups go on in the same store. `wanted`: of the one table, the keys whose rows stay in its
    silver and history. `found` are backups that were listed already, by table name.
    """

    source: BaseSource
    tables: Sequence[Table]
    store: ObjectStore
    lake: str
    points: Mapping[str, RestorePoint] = field(default_factory=dict)
    skip_damaged: bool = False
    is_successor: bool = False
    wanted: WantedKeys = ALL_KEYS
    found: Mapping[str, BackedUpTable] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The change log in that lake."""
        return names.bronze_path(self.lake, self.source)

    def point(self, table: str) -> RestorePoint:
        """How far a table is restored."""
        return self.points.get(table, WholeBackup())

    def point_note(self, table: str) -> str:
        """By which a later call knows whether it asks for the same."""
        keys = f" keys {sorted(self.wanted.single)}" if self.wanted.single else f" {self.wanted.text}" if self.wanted else ""
        return self.point(table).text + keys

    def row_of(self, outcome: RestoredTable) -> dict[str, Any]:
        """What is printed of a table: what became of it, and which rows stay in its silver."""
        return {**outcome.to_json(), "rows": self.wanted.text or "all"}


@dataclass(frozen=True)
class RestoredTable:
    """What became of a table; `unknown` are records of which an old backup does not tell three columns."""

    table: str
    outcome: str
    records: int = 0
    objects: int = 0
    bytes: int = 0
    epoch: int = -1
    positions: Mapping[int, int] = field(default_factory=dict)
    damage: tuple[str, ...] = ()
    unknown: int = 0

    def with_state(self, state: CommittedTopic | None) -> RestoredTable:
        """With what bronze has of it then."""
        if state is None:
            return self
        return replace(self, epoch=state.epoch, positions=state.positions, records=state.all_records)

    def to_json(self) -> dict[str, Any]:
        """For people and programs."""
        told = {name: getattr(self, name) for name in ("table", "outcome", "records", "objects", "bytes", "epoch", "unknown")}
        return {**told, "positions": {str(p): end for p, end in sorted(self.positions.items())}, "damage": list(self.damage)}
