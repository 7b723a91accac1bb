"""For how long bronze and the backup keep what they have: never shorter than somebody may ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from cdc_assets.registry.field_types import format_duration

if TYPE_CHECKING:
    from cdc_assets.registry.source_declaration import BaseSource
    from cdc_assets.registry.table_declaration import Table

_DRILLS = 2
"""A drill that has failed is repeated by the next one, from the same backup."""


def refusals_of_bronze(source: BaseSource) -> Iterator[str]:
    """Records go from bronze only where the backup has them, and not while somebody counts or reads them again."""
    keep = source.bronze.keep
    if keep is None:
        return
    if source.backup is None:
        yield "bronze.keep: the source declares no backup, and what goes from bronze has to be in one"
        return
    others = {
        "topics.retention": source.topics.retention,
        "ledger.allowed_lateness": source.ledger.allowed_lateness,
        "maintenance.time_travel": source.maintenance.time_travel,
        "backup.every": source.backup.every,
    }
    for name, other in others.items():
        if keep <= other:
            yield f"bronze.keep: {keep} is not longer than {name}, {other}"


def backup_keep(source: BaseSource, table: Table) -> timedelta | None:
    """For how long the table's backup keeps an epoch that has ended; None: for ever, as every table with a history does."""
    if source.backup is None or table.history == "scd2":
        return None
    return source.backup.keep if table.backup is None else table.backup.keep


def keeps_all_for_history(source: BaseSource) -> list[Table]:
    """Tables to which `backup.keep` of their source does not apply, since their history has versions of every epoch."""
    declared = source.backup is not None and source.backup.keep is not None
    return [table for table in source.tables if declared and table.history == "scd2" and table.backup is None]


def refusals_of_backup(source: BaseSource) -> Iterator[str]:
    """What a restore, a drill, a topic or bronze may be asked for has to be in the backup: what is kept for a shorter time."""
    for table in source.tables:
        setting = "backup.keep" if table.backup is None else f"backup.keep of {table.name}"
        if table.backup is not None and source.backup is None:
            yield f"{setting}: the source declares no backup"
        if table.backup is not None and table.backup.keep is not None and table.history == "scd2":
            yield f"{setting}: a history has versions of every epoch, so its backup keeps all: take keep out"
        keep = backup_keep(source, table)
        window, name = max((length, name) for name, length in _restore_window(source, table))
        if keep is not None and keep < window:
            least = format_duration(window)
            yield (
                f"{setting}: {format_duration(keep)} is shorter than the restore window, {least} ({name}); declare keep: {least} "
                "or longer, then: cdc validate"
            )


def _restore_window(source: BaseSource, table: Table) -> Iterator[tuple[str, timedelta]]:
    """How far back somebody may ask the backup of the table for its records, and who."""
    yield "topics.retention", source.topics.retention
    if table.retention is not None:
        yield f"retention of {table.name}", table.retention
    yield "maintenance.time_travel", source.maintenance.time_travel
    yield "ledger.allowed_lateness", source.ledger.allowed_lateness
    if source.bronze.keep is not None:
        yield "bronze.keep", source.bronze.keep
    if source.cuts is not None:
        yield "cuts.keep", source.cuts.keep
    if source.drill is not None:
        yield f"{_DRILLS} x drill.every", _DRILLS * source.drill.every
