"""A small lake of a table with a history, and its replays."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.lake import Lake, rows
from cdc_assets_tests.support.lake.versions import COLUMNS
from spark.silver import history_job as history
from spark.specs import Column, SilverSpec
from spark.table.table_folder import open_folder
from spark.upkeep import replay_job
from spark.upkeep.replay_job import Undo, undo
from spark.upkeep.replay_spec import Prepared, ReplaySpec, Swapped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[tuple[tuple[str, str], ...]]


def told(path: str) -> Rows:
    """All that delta-rs reads of a table, sorted."""
    return sorted(tuple(sorted((name, str(value)) for name, value in row.items())) for row in rows(path))


@dataclass
class ReplayedTable:
    """`spec` and `past` are today's rules; a test changes them."""

    session: SparkSession
    root: Path
    columns: tuple[Column, ...] = COLUMNS
    keys: tuple[str, ...] = ("id",)
    lake: Lake = field(init=False)
    spec: SilverSpec = field(init=False)
    has_history: bool = True

    def __post_init__(self) -> None:
        self.lake = Lake(self.session, self.root)
        self.spec = replace(self.lake.spec("t", self.columns, self.keys), quarantine_path=str(self.root / "quarantine"))

    @property
    def past(self) -> SilverSpec | None:
        return replace(self.spec, path=f"{self.spec.path}__history") if self.has_history else None

    @property
    def paths(self) -> dict[str, str]:
        return {"silver": self.spec.path, **({"history": self.past.path} if self.past else {})}

    def send(self, *records: Record, fold: bool = True) -> None:
        self.lake.put("t", *records)
        self.lake.append(self.lake.all_of("t"))
        if fold:
            self.fold()

    def fold(self) -> list[int | None]:
        """The versions of an ordinary run."""
        done = [self.lake.fold(self.spec).version]
        return done + ([history.run(self.session, self.past).version] if self.past else [])

    def told(self) -> dict[str, Rows]:
        return {layer: told(path) for layer, path in self.paths.items()}

    def asked(self, **more: Any) -> ReplaySpec:
        self.lake.not_compared = "a replay puts another table in its place, and an undo the former one: the test has both"
        return ReplaySpec(self.spec, self.past, str(self.root / "replay" / uuid.uuid4().hex), **more)

    def replay(self, **more: Any) -> tuple[Prepared, Swapped]:
        asked = self.asked(**more)
        try:
            return replay_job.prepare(self.session, asked), replay_job.swap(self.session, asked)
        finally:
            open_folder(str(self.root / "replay")).remove_all()

    def compare(self, **more: Any) -> Prepared:
        """As `--dry-run`."""
        try:
            return replay_job.prepare(self.session, self.asked(**more))
        finally:
            open_folder(str(self.root / "replay")).remove_all()

    def undo(self) -> dict[str, int]:
        return undo(self.session, Undo(self.spec, f"{self.spec.path}__history"))
