"""A replay undone: each table as it was before, by Delta's own RESTORE, and silver last.

What a RESTORE undoes no longer says what the table holds (spark.delta.commits.surviving). So the next ordinary run goes on from
where silver was then, and folds all that has come since.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from spark.delta.commits import fold
from spark.delta.failures import SPARK_FAILURES
from spark.delta.identifiers import table_at
from spark.delta.lease import lend_to_spark
from spark.delta.live_files import read_live_table
from spark.delta.log import fold_history, silver_folded
from spark.errors import LeftToSparkError, ReplayError, quantity
from spark.lake.folder import open_folder
from spark.maintenance.expiry import files_of
from spark.reconcile.history_again import Again, records_lost
from spark.replay.marks import ReplayMark, newest_mark, newest_version
from spark.replay.replay_spec import HISTORY, QUARANTINE, SILVER
from spark.specs import SilverSpec


@dataclass(frozen=True)
class Undo:
    """One table, and its history's path; `dry_run`: only say to which versions it would go back."""

    silver: SilverSpec
    history: str
    dry_run: bool = False

    @property
    def paths(self) -> dict[str, str]:
        """By layer, silver last: it says which replay is the newest."""
        return {QUARANTINE: self.silver.quarantine, HISTORY: self.history, SILVER: self.silver.path}


def undo(session: SparkSession, asked: Undo) -> dict[str, int]:
    """The versions that the tables are as of afterwards, by layer.

    Raises:
        ReplayError: there is nothing to undo, or versions or records that it needs are gone.
    """
    mark = newest_mark(asked.silver.path)
    if mark is None:
        raise ReplayError(f"{asked.silver.path}: its log tells of no replay that is still to be undone")
    for layer, path in asked.paths.items():
        _check_version(path, mark.before.get(layer, -1))
    _check_bronze(session, asked.silver, mark)
    if not asked.dry_run:
        with lend_to_spark(asked.silver.path):
            for layer, path in asked.paths.items():
                if layer == HISTORY and mark.before.get(layer, -1) >= 0:
                    with lend_to_spark(path):
                        _restore(session, path, mark.before[layer])
                elif layer in mark.before and layer != HISTORY:
                    _restore(session, path, mark.before[layer])
    return mark.before


def _check_version(path: str, version: int) -> None:
    """That all files of the version are there, before any of the tables goes back."""
    if version < 0 or version == newest_version(path):
        return
    folder = open_folder(path)
    try:
        named = {name for file in read_live_table(path, version).files.values() for name in files_of(file)}
    except LeftToSparkError as reason:
        raise _error_of(path, version, str(reason)) from reason
    if lost := named - {file.name for file in folder.tree()}:
        raise _error_of(path, version, f"{quantity(len(lost), 'file')} of it were removed")


def _error_of(path: str, version: int, reason: str) -> ReplayError:
    return ReplayError(
        f"{path} does not go back to version {version}: {reason}. Nothing is changed. Versions stay for as long as "
        "maintenance.time_travel says; a replay makes the table anew from bronze"
    )


def _restore(session: SparkSession, path: str, version: int) -> None:
    """One commit; a table that was not there then has no rows afterwards."""
    now = newest_version(path)
    if now == version:
        return
    try:
        if version < 0:
            session.sql(f"DELETE FROM {table_at(path)}").collect()
        else:
            session.sql(f"RESTORE TABLE {table_at(path)} TO VERSION AS OF {version}").collect()
    except SPARK_FAILURES as error:
        line = next((text for text in str(error).splitlines() if text.strip()), type(error).__name__)
        raise ReplayError(
            f"{path} does not go back to version {version}: {line[:300]}. Versions stay for as long as maintenance.time_travel "
            "says; a replay makes the table anew from bronze"
        ) from error


def _check_bronze(session: SparkSession, silver: SilverSpec, mark: ReplayMark) -> None:
    """That bronze holds all that has come since that version: the next run folds it again."""
    then, committed = (
        silver_folded(session, silver.path, up_to=mark.before[SILVER]),
        fold_history(session, silver.bronze_path, fold),
    )
    now = silver_folded(session, silver.path)
    if then is None or now is None:
        raise ReplayError(f"{silver.path}: its log no longer tells what version {mark.before[SILVER]} had folded")
    lost = records_lost(session, Again(silver, now, committed.version))
    held = sum(state.all_records for state in then.topics.values())
    if lost > held:
        raise ReplayError(
            f"table {silver.table}: {silver.bronze_path} lacks {quantity(lost - held, 'record', form=',')} that came after "
            f"version {mark.before[SILVER]} of {silver.path}: they would be lost; nothing is undone"
        )
