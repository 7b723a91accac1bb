"""All steps for one table, in their order: rewrite, checkpoint, expire the log, remove files.

Each step stands alone, and a kill within one leaves a table that reads the same: files that no commit names, or a log that only
begins later. A step that a writer stands in the way of is given up until the next time, and told.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from spark.delta.checkpoints import make_checkpoint
from spark.delta.delta_rs import open_delta
from spark.delta.live_files import LiveTable, catch_up, read_live_table
from spark.delta.put_commit import put_commit
from spark.errors import LeftToSparkError
from spark.maintenance import by_spark, old_records, old_windows, rewriting, settled_records
from spark.maintenance.expiry import find_expired, find_garbage, remove_garbage, remove_log
from spark.maintenance.kept_properties import properties_to_set
from spark.maintenance.log_files import LogFiles, list_log
from spark.maintenance.look import TableFigures, figures_of
from spark.maintenance.maintenance_spec import Maintained, MaintenancePlan, MaintenanceSpec
from spark.maintenance.needs import NamedVersion, Need, first_telling

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark.maintenance.by_spark import BySpark

Answer = TypeVar("Answer")
CHECKPOINT_FROM = 20
"""Commits behind the newest checkpoint from which on maintenance makes another."""
TIME_TRAVEL = "time travel"
TRIES = 3
"""So often a rewriting is begun that writers came before."""


def plan(spec: MaintenanceSpec) -> MaintenancePlan:
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
        rewrite_files=sum(map(len, rewriting.plan_bins(list(live.files.values())))),
        checkpoint=log.since_checkpoint >= CHECKPOINT_FROM,
        expire_commits=_commits_among(expired),
        remove_files=len(garbage.files),
        remove_bytes=garbage.bytes,
        kept=kept,
        kept_seconds=round(max(0.0, log.now - log.commits.get(kept.version + 1, log.now)), 1),
        named=named[min(named)] if named else None,
    )


def maintain(spec: MaintenanceSpec, spark: BySpark | None = None) -> Maintained:
    """Do what the table needs; `spark` writes tables that only Spark writes, where there is one."""
    started, given_up = time.monotonic(), dict[str, str]()
    try:
        live, log = _look(spec.path)
    except LeftToSparkError as reason:
        return Maintained(MaintenancePlan(None, left=str(reason)), given_up={"all": str(reason)})

    def attempt(name: str, step: Callable[[], Answer]) -> Answer | None:
        return _attempt(name, given_up, partial(_in_turn, spec.writers, step))

    needed = _attempt("plan", given_up, lambda: _plan(spec, live, log))
    rows = attempt("rows", lambda: _remove_rows(spec, live)) or 0
    rewritten = attempt("rewrite", lambda: _rewrite(spec, live, spark)) or rewriting.Rewritten()
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
    return read_live_table(path), list_log(path)


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
    """The step, in the turn of the table `writers` from its begin, where one is named."""
    if not writers:
        return step()
    with rewriting.turn(writers):
        return step()


def _find_kept(spec: MaintenanceSpec, log: LogFiles) -> Need:
    """The oldest version that somebody reads and that is there, and who; nothing from there on is removed.

    Of a table that was idle for long, readers need nothing between what they have read and what came now.
    """
    found = [Need(log.version_at(log.now - spec.time_travel), f"{TIME_TRAVEL}: {spec.time_travel / 3600:g} h")]
    first = min((*found, *spec.needs), key=lambda need: need.version)
    return first if first.version >= log.oldest else replace(first, version=log.oldest)


def _find_named(spec: MaintenanceSpec, live: LiveTable, log: LogFiles, kept: Need) -> dict[int, NamedVersion]:
    """The versions below `kept` that stay by themselves, as far as the log still gives them."""
    own = [each for each in spec.named if each.table_id in ("", live.metadata.get("id"))]
    return {each.version: each for each in own if log.oldest <= each.version < kept.version}


def _count_rows(spec: MaintenanceSpec, live: LiveTable) -> int:
    found = old_windows.count_old(spec.path, live, spec.old_windows) if spec.old_windows else 0
    found += old_records.count_old(live, spec.old_records) if spec.old_records else 0
    return found + (settled_records.count_settled(spec.path, live, spec.settled) if spec.settled else 0)


def _remove_rows(spec: MaintenanceSpec, live: LiveTable) -> int:
    if not (spec.old_windows or spec.old_records or spec.settled):
        return 0
    if reason := rewriting.only_by_spark(live):
        raise LeftToSparkError(reason)
    gone = old_windows.remove_old(spec.path, live, spec.old_windows) if spec.old_windows else 0
    gone += settled_records.remove_settled(spec.path, live, spec.settled) if spec.settled else 0
    return gone + (old_records.remove_old(spec.path, live, spec.old_records) if spec.old_records else 0)


def _rewrite(spec: MaintenanceSpec, live: LiveTable, spark: BySpark | None) -> rewriting.Rewritten:
    """As long as writers come before, from what they have left."""
    done = _rewrite_once(spec, live, spark)
    for _ in range(1, TRIES):
        if not done.given_up:
            break
        done = done.then(_rewrite_once(spec, read_live_table(spec.path), spark))
    return done


def _rewrite_once(spec: MaintenanceSpec, live: LiveTable, spark: BySpark | None) -> rewriting.Rewritten:
    if not rewriting.plan_bins(list(live.files.values())):
        return rewriting.Rewritten()
    if not (reason := rewriting.only_by_spark(live)):
        return rewriting.rewrite(spec.path, live)
    if spark is None:
        raise LeftToSparkError(reason)
    return by_spark.count_rewritten(spec.path, spark)


def _set_properties(spec: MaintenanceSpec, spark: BySpark | None) -> None:
    """Delta's own removals keep, from now on, what others of ours need."""
    path, live = spec.path, read_live_table(spec.path)
    wanted = properties_to_set(live.metadata.get("configuration") or {}, spec.needed_seconds)
    if not wanted:
        return
    if reason := rewriting.only_by_spark(live):
        reason = spark(partial(by_spark.set_properties, properties=wanted), path) if spark is not None else reason
        if reason:
            raise LeftToSparkError(reason)
        return
    with rewriting.turn(path):
        catch_up(live, path)
        configuration = {**(live.metadata.get("configuration") or {}), **wanted}
        info = rewriting.own_commit_info("SET TBLPROPERTIES", {})
        put_commit(path, live.version + 1, [info, {"metaData": {**live.metadata, "configuration": configuration}}])


def _make_checkpoint(path: str) -> bool:
    """Under the table's lease, as every checkpoint of ours: two writers of one could spoil it."""
    from deltalake.exceptions import DeltaError

    if list_log(path).since_checkpoint < CHECKPOINT_FROM:
        return False
    with rewriting.turn(path):
        try:
            make_checkpoint(open_delta(path), path)
        except DeltaError as error:
            raise LeftToSparkError(f"Spark makes it: {str(error)[:200]}") from error
    return True


def _expire(spec: MaintenanceSpec) -> Maintained:
    """Files first: what is in no version that is kept is found from commits that then may go."""
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
    told = [each for each in (first_telling(path), first_telling(path, keep_from)) if each is not None]
    return find_expired(log, keep_from, min(told, default=None))


def _commits_among(names: list[str]) -> int:
    return sum(name.endswith(".json") and not name.startswith(".") for name in names)
