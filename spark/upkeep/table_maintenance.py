"""All steps of maintenance for one table, in their order: old rows out, small files made one, properties, checkpoint,
old commits and files removed.

Each step stands alone, and a kill within one leaves a table that reads the same; a step that a writer stands in the
way of is given up until the next time, and told. Only Spark's OPTIMIZE, for tables that only Spark writes, holds the
table's lease for all of its work. The properties make Delta's own removals keep what others of ours still read.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from spark.errors import LeftToSparkError, TableHeldError, quantity
from spark.table.delta_rs import make_checkpoint, open_delta
from spark.table.delta_table import LiveTable, table_of
from spark.table.identifiers import literal, table_at
from spark.table.needed_versions import NamedVersion, Need, first_telling
from spark.table.spark_failures import MAY_PASS, is_conflict
from spark.table.write_lease import lend_to_spark
from spark.upkeep import file_rewrite, row_retention
from spark.upkeep.file_rewrite import BIN_BYTES, GONE_SHARE, LEASE_SECONDS, SMALL_BYTES, Rewritten, TableFigures, figures_of
from spark.upkeep.log_expiry import LogFiles, find_expired_log, find_garbage, list_log, remove_garbage, remove_log
from spark.upkeep.maintenance_spec import Maintained, MaintenancePlan, MaintenanceSpec

if TYPE_CHECKING:
    from collections.abc import Callable

KEEP_LOG, KEEP_FILES = "delta.enableExpiredLogCleanup", "delta.deletedFileRetentionDuration"
_DAY = 86_400
_DELTAS_OWN_DAYS = 7


def properties_to_set(configuration: Mapping[str, str], needed_seconds: float) -> dict[str, str]:
    """Those that the table lacks, or has otherwise: files of a version that is needed for so long must stay.

    By them Delta itself keeps what others of ours still read. Writers remove old commits by themselves, and do not know
    which of ours are needed. A VACUUM keeps what is younger than the table's `delta.deletedFileRetentionDuration`,
    seven days without the property
    (https://docs.delta.io/latest/delta-utility.html#remove-files-no-longer-referenced-by-a-delta-table).
    """
    days = max(_DELTAS_OWN_DAYS, math.ceil(needed_seconds / _DAY))
    properties = {KEEP_LOG: "false"}
    # A checkpoint names what was removed for as long: more of it only where somebody asks for more.
    if days > _DELTAS_OWN_DAYS or KEEP_FILES in configuration:
        properties[KEEP_FILES] = f"interval {quantity(days, 'day')}"
    return {name: value for name, value in properties.items() if configuration.get(name) != value}


Step = Callable[[Any, str], str]
"""`optimize` or `set_properties`: given a session and a table's path, why it gave way to a writer; empty where it did not."""
BySpark = Callable[[Step, str], str]
"""Does a step in some session."""
_CONF = {
    "spark.databricks.delta.optimize.minFileSize": str(SMALL_BYTES),
    "spark.databricks.delta.optimize.maxFileSize": str(BIN_BYTES),
    "spark.databricks.delta.optimize.maxDeletedRowsRatio": str(GONE_SHARE),
}


def optimize_by_spark(session: Any, path: str) -> str:
    """Small files made one; files of which much is gone written anew."""
    for name, value in _CONF.items():
        session.conf.set(name, value)
    return _run_under_lease(path, lambda: session.sql(f"OPTIMIZE {table_at(path)}").collect())


def set_properties_by_spark(session: Any, path: str, *, properties: Mapping[str, str]) -> str:
    """Those of the table, from now on."""
    assignments = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in sorted(properties.items()))
    return _run_under_lease(
        path, lambda: session.sql(f"ALTER TABLE {table_at(path)} SET TBLPROPERTIES ({assignments})").collect()
    )


def _run_under_lease(path: str, statement: Callable[[], Any]) -> str:
    # Spark commits what it has written without looking whose turn it is, so it has the table's turn for all of it, as every
    # writer of Spark has (spark.table.write_lease). One that waits for it waits for one OPTIMIZE of files that are small or worn.
    try:
        with lend_to_spark(path, seconds=LEASE_SECONDS):
            statement()
    except TableHeldError as reason:
        if reason.is_lost:
            raise
        return str(reason)
    except LeftToSparkError as reason:
        return str(reason)
    except MAY_PASS as error:
        if not is_conflict(error):
            raise
        return f"a writer came first: {str(error)[:200]}"
    return ""


def count_rewritten(path: str, spark: BySpark) -> Rewritten:
    """Have Spark do it, and tell from the log what that did."""
    before = table_of(path).snapshot()
    reason = spark(optimize_by_spark, path)
    now = table_of(path).snapshot()
    gone, new = set(before.files) - set(now.files), set(now.files) - set(before.files)
    return Rewritten(now.version - before.version, len(gone), len(new), reason)


Answer = TypeVar("Answer")
CHECKPOINT_FROM = 20
"""Commits behind the newest checkpoint from which on maintenance makes another."""
TIME_TRAVEL = "time travel"
TRIES = 3
"""So often a rewriting is begun that writers came before."""


def plan_table(spec: MaintenanceSpec) -> MaintenancePlan:
    """What would be done now; nothing is changed."""
    try:
        return _plan(spec, *_look(spec.path))
    except LeftToSparkError as reason:
        return MaintenancePlan(None, left=str(reason))


def _plan(spec: MaintenanceSpec, live: LiveTable, log: LogFiles) -> MaintenancePlan:
    kept = _find_kept(spec, log)
    named = _find_named(spec, live, log, kept)
    expired = _find_expired(spec.path, log, min([kept.version, *named]))
    garbage = find_garbage(spec.path, kept.version, named=named, work_seconds=spec.work_seconds)
    return MaintenancePlan(
        figures=figures_of(live, log),
        rows=_count_rows(spec, live),
        rewrite_files=sum(map(len, file_rewrite.plan_bins(list(live.files.values())))),
        checkpoint=log.since_checkpoint >= CHECKPOINT_FROM,
        expire_commits=_commits_among(expired),
        remove_files=len(garbage.files),
        remove_bytes=garbage.bytes,
        kept=kept,
        kept_seconds=round(max(0.0, log.now - log.commits.get(kept.version + 1, log.now)), 1),
        named=named[min(named)] if named else None,
    )


def maintain(spec: MaintenanceSpec, spark: BySpark | None = None) -> Maintained:
    """Do what the table needs; `spark` writes tables that only Spark writes, where there is one.

    A kill within a step leaves a table that reads the same: files that no commit names, or a log that only begins
    later.
    """
    started, given_up = time.monotonic(), dict[str, str]()
    try:
        live, log = _look(spec.path)
    except LeftToSparkError as reason:
        return Maintained(MaintenancePlan(None, left=str(reason)), given_up={"all": str(reason)})

    def attempt(name: str, step: Callable[[], Answer]) -> Answer | None:
        return _attempt(name, given_up, partial(_in_turn, spec.writers, step))

    needed = _attempt("plan", given_up, lambda: _plan(spec, live, log))
    rows = attempt("rows", lambda: _remove_rows(spec, live)) or 0
    rewritten = attempt("rewrite", lambda: _rewrite(spec, live, spark)) or file_rewrite.Rewritten()
    if rewritten.given_up:
        given_up["rewrite"] = rewritten.given_up
    attempt("settings", lambda: _set_properties(spec, spark))
    made = bool(attempt("checkpoint", lambda: _make_checkpoint(spec.path)))
    done = _attempt("expire", given_up, lambda: _expire(spec)) or Maintained()
    return replace(
        done,
        plan=needed,
        after=_figures(spec.path),
        rows_removed=rows,
        files_rewritten=rewritten.files,
        files_written=rewritten.written,
        checkpoint=made,
        seconds=round(time.monotonic() - started, 3),
        given_up=given_up,
    )


def _look(path: str) -> tuple[LiveTable, LogFiles]:
    return table_of(path).snapshot(), list_log(path)


def _figures(path: str) -> TableFigures:
    return figures_of(*_look(path))


def _attempt(name: str, given_up: dict[str, str], step: Callable[[], Answer]) -> Answer | None:
    """The step's answer; None where it was given up, which is told by its name."""
    try:
        return step()
    except LeftToSparkError as reason:
        given_up[name] = str(reason)
        return None


def _in_turn(writers: str, step: Callable[[], Answer]) -> Answer:
    if not writers:
        return step()
    with file_rewrite.turn(writers):
        return step()


def _find_kept(spec: MaintenanceSpec, log: LogFiles) -> Need:
    """The oldest version that somebody reads and that is there, and who; nothing from there on is removed.

    Of a table that was idle for long, readers need nothing between what they have read and what came now.
    """
    needs = [Need(log.version_at(log.now - spec.time_travel), f"{TIME_TRAVEL}: {spec.time_travel / 3600:g} h")]
    first = min((*needs, *spec.needs), key=lambda need: need.version)
    return first if first.version >= log.oldest else replace(first, version=log.oldest)


def _find_named(spec: MaintenanceSpec, live: LiveTable, log: LogFiles, kept: Need) -> dict[int, NamedVersion]:
    """The versions below `kept` that stay by themselves, as far as the log still gives them."""
    own = [version for version in spec.named if version.table_id in ("", live.metadata.get("id"))]
    return {version.version: version for version in own if log.oldest <= version.version < kept.version}


def _count_rows(spec: MaintenanceSpec, live: LiveTable) -> int:
    count = row_retention.count_old_windows(spec.path, live, spec.old_windows) if spec.old_windows else 0
    count += row_retention.count_old_records(live, spec.old_records) if spec.old_records else 0
    return count + (row_retention.count_settled(spec.path, live, spec.settled) if spec.settled else 0)


def _remove_rows(spec: MaintenanceSpec, live: LiveTable) -> int:
    if not (spec.old_windows or spec.old_records or spec.settled):
        return 0
    if reason := file_rewrite.only_by_spark(live):
        raise LeftToSparkError(reason)
    gone = row_retention.remove_old_windows(spec.path, live, spec.old_windows) if spec.old_windows else 0
    gone += row_retention.remove_settled(spec.path, live, spec.settled) if spec.settled else 0
    return gone + (row_retention.remove_old_records(spec.path, live, spec.old_records) if spec.old_records else 0)


def _rewrite(spec: MaintenanceSpec, live: LiveTable, spark: BySpark | None) -> file_rewrite.Rewritten:
    # A writer that came first leaves files to do again: up to TRIES looks.
    done = _rewrite_once(spec, live, spark)
    for _ in range(1, TRIES):
        if not done.given_up:
            break
        done = done.then(_rewrite_once(spec, table_of(spec.path).snapshot(), spark))
    return done


def _rewrite_once(spec: MaintenanceSpec, live: LiveTable, spark: BySpark | None) -> file_rewrite.Rewritten:
    if not file_rewrite.plan_bins(list(live.files.values())):
        return file_rewrite.Rewritten()
    if not (reason := file_rewrite.only_by_spark(live)):
        return file_rewrite.rewrite(spec.path, live)
    if spark is None:
        raise LeftToSparkError(reason)
    return count_rewritten(spec.path, spark)


def _set_properties(spec: MaintenanceSpec, spark: BySpark | None) -> None:
    path, live = spec.path, table_of(spec.path).snapshot()
    properties = properties_to_set(live.metadata.get("configuration") or {}, spec.needed_seconds)
    if not properties:
        return
    if reason := file_rewrite.only_by_spark(live):
        reason = spark(partial(set_properties_by_spark, properties=properties), path) if spark is not None else reason
        if reason:
            raise LeftToSparkError(reason)
        return
    with file_rewrite.turn(path):
        table_of(path).catch_up(live)
        configuration = {**(live.metadata.get("configuration") or {}), **properties}
        info = file_rewrite.own_commit_info("SET TBLPROPERTIES", {})
        table_of(path).put(live.version + 1, [info, {"metaData": {**live.metadata, "configuration": configuration}}])


def _make_checkpoint(path: str) -> bool:
    # Under the table's lease, as every checkpoint of ours: two writers of one could spoil it.
    from deltalake.exceptions import DeltaError

    if list_log(path).since_checkpoint < CHECKPOINT_FROM:
        return False
    with file_rewrite.turn(path):
        try:
            make_checkpoint(open_delta(path), path)
        except DeltaError as error:
            raise LeftToSparkError(f"Spark makes it: {str(error)[:200]}") from error
    return True


def _expire(spec: MaintenanceSpec) -> Maintained:
    # Files first: what is in no version that is kept is found from commits that then may go.
    live, log = _look(spec.path)
    kept = _find_kept(spec, log)
    named = _find_named(spec, live, log, kept)
    garbage = find_garbage(spec.path, kept.version, named=named, work_seconds=spec.work_seconds)
    remove_garbage(spec.path, garbage)
    names = _find_expired(spec.path, log, min([kept.version, *named]))
    remove_log(spec.path, names)
    return Maintained(
        commits_expired=_commits_among(names),
        files_removed=len(garbage.files),
        bytes_removed=garbage.bytes,
        kept=kept,
        named=named[min(named)] if named else None,
    )


def _find_expired(path: str, log: LogFiles, keep_from: int) -> list[str]:
    """What goes of the log: neither what the table holds now, nor what it held at the oldest version that is kept, is told there.

    Whoever goes back to that version (a RESTORE, an undo), or folds bronze as it was then, asks the same of it.
    """
    versions = [version for version in (first_telling(path), first_telling(path, keep_from)) if version is not None]
    return find_expired_log(log, keep_from, min(versions, default=None))


def _commits_among(names: list[str]) -> int:
    return sum(name.endswith(".json") and not name.startswith(".") for name in names)
