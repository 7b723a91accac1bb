"""One table made again: its shadow is built and compared without a lock, and swapped in under silver's."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdc_assets import names
from cdc_assets.errors import DatabaseError
from cdc_assets.preflight.table_models import refuse_held
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.databases.catalogue import CatalogueTable
from cdc_assets.resources.hidden_values import HiddenValues
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.table_lock import table_lock
from cdc_assets.tables.fold_refusals import absent_table
from cdc_assets.tables.fold_specs import catalogue_or_last_known, history_spec, silver_spec

if TYPE_CHECKING:
    from spark.replay.replay_spec import Difference, Prepared, ReplaySpec, Swapped
    from spark.specs import SilverSpec

_BUSY_SECONDS = 5.0
Say = Callable[[str], object]


@dataclass(frozen=True)
class ReplayWish:
    """What of a table is made again: rows of `keys`, or with events in a time; else all. `as_new`: without columns that are kept
    of earlier schemas. `dry_run`: only show what differs."""

    keys: tuple[str, ...] = ()
    since: str = ""
    until: str = ""
    as_new: bool = False
    dry_run: bool = False


@dataclass(frozen=True)
class Replayed:
    """What was found, and the versions where something was swapped in."""

    source: BaseSource
    table: Table
    prepared: Prepared
    swapped: Swapped | None
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """For programs; values of sensitive columns are hashes."""
        prepared, values = self.prepared, HiddenValues()
        told = {layer: _as_json(each, self.table.sensitive, values) for layer, each in prepared.differences.items()}
        return {
            "source": self.source.name,
            "table": names.table_name(self.table),
            "rules": list(prepared.rules),
            "chosen_keys": prepared.chosen,
            "difference": told,
            "quarantined": prepared.quarantined,
            "folded_of_quarantine": prepared.folded,
            "swapped": self.swapped is not None,
            "versions": dict(self.swapped.now) if self.swapped else {},
            "before": dict(self.swapped.before) if self.swapped else {},
            "seconds": self.seconds,
        }


def replay_table(platform: Platform, source: BaseSource, table: Table, wish: ReplayWish, say: Say) -> Replayed:
    """Make the table again, and swap it in where something differs.

    Raises:
        TableBusyError: somebody else replays it.
        DatabaseError: Debezium misreads its rows.
        SparkRunError: it cannot be made again, as the text says; nothing has changed then, or the same command ends it.
    """
    from spark.lake.folder import open_folder
    from spark.replay import job

    started, short, root = time.monotonic(), names.table_name(table), names.replay_path(platform.lake, source, table)
    with table_lock("replay", source.name, short, deadline=_BUSY_SECONDS):
        asked = _spec(platform, source, table, wish, say)
        # What a killed attempt has left.
        open_folder(root).remove_all()
        try:
            say(f"{source.name}/{short}: folding all of bronze beside the live table")
            prepared = platform.spark().run(job.prepare, asked)
            swapped = None
            if not (wish.dry_run or prepared.is_empty):
                say(f"{source.name}/{short}: swapping it in")
                with table_lock("silver", source.name, short):
                    swapped = platform.spark().run(job.swap, asked)
        finally:
            open_folder(root).remove_all()
    return Replayed(source, table, prepared, swapped, round(time.monotonic() - started, 3))


def undo_replay(platform: Platform, source: BaseSource, table: Table, say: Say, *, dry_run: bool) -> dict[str, int]:
    """Take the table's newest replay back; the versions, by layer, that its tables are as of then.

    Raises:
        SparkRunError: there is none, or what it needs is gone.
    """
    from spark.replay.undo import Undo, undo

    short = names.table_name(table)
    silver, _ = _specs(platform.lake, source, table, _catalogue_table(platform, source, table, say))
    asked = Undo(silver, names.history_path(platform.lake, source, table), dry_run)
    with table_lock("replay", source.name, short, deadline=_BUSY_SECONDS), table_lock("silver", source.name, short):
        return platform.spark().run(undo, asked)


def _spec(platform: Platform, source: BaseSource, table: Table, wish: ReplayWish, say: Say) -> ReplaySpec:
    from spark.replay.replay_spec import ReplaySpec

    found = _catalogue_table(platform, source, table, say)
    refuse_held(platform, source, table, found)
    silver, history = _specs(platform.lake, source, table, found)
    # A folder of its own each time: Spark remembers a table by its path.
    folder = f"{names.replay_path(platform.lake, source, table)}/{uuid.uuid4().hex}"
    return ReplaySpec(silver, history, folder, wish.keys, wish.since, wish.until, wish.as_new)


def _catalogue_table(platform: Platform, source: BaseSource, table: Table, say: Say) -> CatalogueTable:
    found = catalogue_or_last_known(platform, source, [table], say)
    if table.id not in found:
        raise DatabaseError(absent_table(source, table))
    return found[table.id]


def _specs(lake: str, source: BaseSource, table: Table, found: CatalogueTable) -> tuple[SilverSpec, SilverSpec | None]:
    silver = silver_spec(lake, source, table, found)
    return silver, history_spec(lake, source, table, silver) if table.history == "scd2" else None


def _as_json(difference: Difference, sensitive: tuple[str, ...], values: HiddenValues) -> dict[str, Any]:
    def hide(row: dict[str, Any]) -> dict[str, Any]:
        return {name: values.hide(value) if name in sensitive else value for name, value in row.items()}

    examples = [
        {"kind": each["kind"], **{part: hide(each[part]) for part in ("key", "was", "now")}} for each in difference.examples
    ]
    return {
        "version": difference.version,
        "rows": dict(difference.rows),
        "changed_by_column": dict(difference.columns),
        "schema": list(difference.schema),
        "examples": examples,
    }
