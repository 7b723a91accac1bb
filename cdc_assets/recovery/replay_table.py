"""One table made again: its shadow is built and compared without a lock, and swapped in under silver's."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdc_assets.capture.preflight.table_models import refuse_held
from cdc_assets.chain.fold_specs import absent_table, catalogue_or_last_known, history_spec, silver_spec
from cdc_assets.clients.databases.catalogue import CatalogueTable
from cdc_assets.clients.source_chain import Chain, Say
from cdc_assets.clients.table_concurrency import table_lock
from cdc_assets.registry import names
from cdc_assets.registry.display_text import HiddenValues
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table

if TYPE_CHECKING:
    from spark.specs import SilverSpec
    from spark.upkeep.replay_spec import Difference, Prepared, ReplaySpec, Swapped

_BUSY_SECONDS = 5.0


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
        differences = {
            layer: _as_json(difference, self.table.sensitive, values) for layer, difference in prepared.differences.items()
        }
        return {
            "source": self.source.name,
            "table": names.table_name(self.table),
            "rules": list(prepared.rules),
            "chosen_keys": prepared.chosen,
            "difference": differences,
            "quarantined": prepared.quarantined,
            "folded_of_quarantine": prepared.folded,
            "swapped": self.swapped is not None,
            "versions": dict(self.swapped.now) if self.swapped else {},
            "before": dict(self.swapped.before) if self.swapped else {},
            "seconds": self.seconds,
        }


def replay_table(chain: Chain[BaseSource], table: Table, wish: ReplayWish, say: Say) -> Replayed:
    """Make the table again, and swap it in where something differs.

    Raises:
        TableBusyError: somebody else replays it.
        DatabaseError: Debezium misreads its rows.
        SparkRunError: it cannot be made again, as the text says; nothing has changed then, or the same command ends it.
    """
    from spark.table.table_folder import open_folder
    from spark.upkeep import replay_job

    started, short, root = time.monotonic(), names.table_name(table), chain.replay_path(table)
    with table_lock("replay", chain.source.name, short, deadline=_BUSY_SECONDS):
        spec = _spec(chain, table, wish, say)
        # What a killed attempt has left.
        open_folder(root).remove_all()
        try:
            say(f"{chain.source.name}/{short}: folding all of bronze beside the live table")
            prepared = chain.platform.spark().run(replay_job.prepare, spec)
            swapped = None
            if not (wish.dry_run or prepared.is_empty):
                say(f"{chain.source.name}/{short}: swapping it in")
                with table_lock("silver", chain.source.name, short):
                    swapped = chain.platform.spark().run(replay_job.swap, spec)
        finally:
            open_folder(root).remove_all()
    return Replayed(chain.source, table, prepared, swapped, round(time.monotonic() - started, 3))


def undo_replay(chain: Chain[BaseSource], table: Table, say: Say, *, dry_run: bool) -> dict[str, int]:
    """Take the table's newest replay back; the versions, by layer, that its tables are as of then.

    Raises:
        SparkRunError: there is none, or what it needs is gone.
    """
    from spark.upkeep.replay_job import Undo, undo

    short = names.table_name(table)
    silver, _ = _specs(chain.platform.lake, chain.source, table, _catalogue_table(chain, table, say))
    spec = Undo(silver, chain.history_path(table), dry_run)
    with table_lock("replay", chain.source.name, short, deadline=_BUSY_SECONDS), table_lock("silver", chain.source.name, short):
        return chain.platform.spark().run(undo, spec)


def _spec(chain: Chain[BaseSource], table: Table, wish: ReplayWish, say: Say) -> ReplaySpec:
    from spark.upkeep.replay_spec import ReplaySpec

    catalogue_table = _catalogue_table(chain, table, say)
    refuse_held(chain, table, catalogue_table)
    silver, history = _specs(chain.platform.lake, chain.source, table, catalogue_table)
    # A folder of its own each time: Spark remembers a table by its path.
    folder = f"{chain.replay_path(table)}/{uuid.uuid4().hex}"
    return ReplaySpec(silver, history, folder, wish.keys, wish.since, wish.until, wish.as_new)


def _catalogue_table(chain: Chain[BaseSource], table: Table, say: Say) -> CatalogueTable:
    catalogue_tables = catalogue_or_last_known(chain, [table], say)
    if table.id not in catalogue_tables:
        raise DatabaseError(absent_table(chain.source, table))
    return catalogue_tables[table.id]


def _specs(lake: str, source: BaseSource, table: Table, found: CatalogueTable) -> tuple[SilverSpec, SilverSpec | None]:
    silver = silver_spec(lake, source, table, found)
    return silver, history_spec(lake, source, table, silver) if table.history == "scd2" else None


def _as_json(difference: Difference, sensitive: tuple[str, ...], values: HiddenValues) -> dict[str, Any]:
    def hide(row: dict[str, Any]) -> dict[str, Any]:
        return {name: values.hide(value) if name in sensitive else value for name, value in row.items()}

    examples = [{"kind": row["kind"], **{side: hide(row[side]) for side in ("key", "was", "now")}} for row in difference.examples]
    return {
        "version": difference.version,
        "rows": dict(difference.rows),
        "changed_by_column": dict(difference.columns),
        "schema": list(difference.schema),
        "examples": examples,
    }
