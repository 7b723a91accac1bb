"""A replay in two steps, and back: shadows are built and compared, then they take the live tables' place; an undo makes
each table as it was before.

Under silver's turn the shadow is caught up, then quarantine, the history and silver are replaced: a whole table by
one commit that names the shadow's files, rows of chosen keys by one MERGE. The commits carry the replay's id and the
versions that an undo goes back to; silver's, the last, says that it is done, and killed before it a replay from the
start ends in the same tables. An undo is Delta's own RESTORE, silver last, and the next ordinary run folds all that
has come since.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.errors import JobRefusedError, LeftToSparkError, TableHeldError, quantity
from spark.proof.history_proof import Again, records_lost
from spark.specs import SilverSpec
from spark.table.commit_metadata import Folded, fold, parse, silver_metadata
from spark.table.delta_table import table_of
from spark.table.identifiers import quote, table_at
from spark.table.spark_failures import SPARK_FAILURES, run_again
from spark.table.spark_session import compute_once, execute
from spark.table.table_folder import open_folder
from spark.table.write_lease import MARK_SECONDS, lend_to_spark, lend_to_task
from spark.upkeep import content_swap
from spark.upkeep.chosen_keys import chosen_keys, of_chosen
from spark.upkeep.content_swap import move_files, put_content
from spark.upkeep.log_expiry import files_of
from spark.upkeep.replay_shadow import (
    TwoTables,
    build_shadow,
    catch_up,
    compare_shadow,
    find_rules,
    key_of,
    rows_of,
    rules_of_live,
    seed_quarantine,
)
from spark.upkeep.replay_spec import HISTORY, QUARANTINE, SILVER, Difference, Prepared, ReplaySpec, Swapped


@dataclass(frozen=True)
class ReplayMark:
    """`before`: by layer the version that was there; `done`: nothing but silver's own commit says so.

    The mark has the replay's id, and the versions that an undo goes back to. Only silver's commit, the last one, holds
    all of them, and so says that it is done. A history's holds its own: after a kill between the two, the next try
    takes it from there.
    """

    id: str
    before: dict[str, int] = field(default_factory=dict)
    done: bool = False

    def to_dict(self) -> dict[str, Any]:
        """As a commit holds it."""
        return asdict(self)


def newest_mark(path: str) -> ReplayMark | None:
    """That of the newest replay which no RESTORE has undone; None: there is none in the log."""
    for commits in table_of(path).looks():
        for version, text in commits:
            mark = (parse(text, "silver", version) or {}).get("replay")
            if mark:
                return ReplayMark(**mark)
    return None


def newest_version(path: str) -> int:
    """That of the table; -1: there is none."""
    commits = table_of(path).commits(1)
    return int(commits[0]["version"]) if commits else -1


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


def undo(session: SparkSession, request: Undo) -> dict[str, int]:
    """The versions that the tables are as of afterwards, by layer.

    By Delta's own RESTORE. What that undoes no longer says what the table holds
    (spark.table.commit_metadata.surviving). So the next ordinary run goes on from where silver was then, and folds all
    that has come since.

    Raises:
        JobRefusedError: there is nothing to undo, or versions or records that it needs are gone.
    """
    mark = newest_mark(request.silver.path)
    if mark is None:
        raise JobRefusedError(f"{request.silver.path}: its log tells of no replay that is still to be undone")
    for layer, path in request.paths.items():
        _check_version(path, mark.before.get(layer, -1))
    _check_bronze(session, request.silver, mark)
    if not request.dry_run:
        with lend_to_spark(request.silver.path):
            for layer, path in request.paths.items():
                if layer == HISTORY and mark.before.get(layer, -1) >= 0:
                    with lend_to_spark(path):
                        _restore(session, path, mark.before[layer])
                elif layer in mark.before and layer != HISTORY:
                    _restore(session, path, mark.before[layer])
    return mark.before


def _check_version(path: str, version: int) -> None:
    # All files of the version have to be there before any of the tables goes back.
    if version < 0 or version == newest_version(path):
        return
    folder = open_folder(path)
    try:
        named = {name for file in table_of(path).snapshot(version).files.values() for name in files_of(file)}
    except LeftToSparkError as reason:
        raise _error_of(path, version, str(reason)) from reason
    if lost := named - {file.name for file in folder.tree()}:
        raise _error_of(path, version, f"{quantity(len(lost), 'file')} of it were removed")


def _error_of(path: str, version: int, reason: str) -> JobRefusedError:
    return JobRefusedError(
        f"{path} does not go back to version {version}: {reason}. Nothing is changed. Versions stay for as long as "
        "maintenance.time_travel says; a replay makes the table anew from bronze"
    )


def _restore(session: SparkSession, path: str, version: int) -> None:
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
        raise JobRefusedError(
            f"{path} does not go back to version {version}: {line[:300]}. Versions stay for as long as maintenance.time_travel "
            "says; a replay makes the table anew from bronze"
        ) from error


def _check_bronze(session: SparkSession, silver: SilverSpec, mark: ReplayMark) -> None:
    # The next run folds again all that has come since that version: bronze has to hold it.
    then, committed = (
        table_of(silver.path).silver_folded(up_to=mark.before[SILVER]),
        table_of(silver.bronze_path).fold(fold),
    )
    now = table_of(silver.path).silver_folded()
    if then is None or now is None:
        raise JobRefusedError(f"{silver.path}: its log no longer tells what version {mark.before[SILVER]} had folded")
    lost = records_lost(session, Again(silver, now, committed.version))
    folded = sum(state.all_records for state in then.topics.values())
    if lost > folded:
        raise JobRefusedError(
            f"table {silver.table}: {silver.bronze_path} lacks {quantity(lost - folded, 'record', form=',')} that came after "
            f"version {mark.before[SILVER]} of {silver.path}: they would be lost; nothing is undone"
        )


TURN_SECONDS = MARK_SECONDS + 60.0
"""For so long others may write the table; a writer that was cut off is waited for."""
_COMMIT_TRIES, _POLL_SECONDS = 5, 0.5


def prepare(session: SparkSession, replay: ReplaySpec) -> Prepared:
    """Build the shadows below `replay.folder`, and compare them with the live tables.

    Raises:
        JobRefusedError: the table cannot be made again from what there is, or rows are chosen and the rules are others.
    """
    versions = {layer: newest_version(spec.path) for layer, spec in replay.live.items()}
    rules = {layer: rules_of_live(session, replay, layer, version) for layer, version in versions.items()}
    changes = tuple(f"{layer}: {change}" for layer, layer_rules in rules.items() for change in layer_rules.changes)
    # What is asked for wrongly is told before all of bronze is folded.
    _refuse_other_rules(replay, changes)
    keys = chosen_keys(session, replay, rules[SILVER].spec)
    seed_quarantine(session, replay)
    for layer, version in versions.items():
        build_shadow(session, replay, layer, (rules[layer], version))
    differences = {layer: _compare(session, replay, layer, versions[layer], keys) for layer in replay.live}
    _refuse_other_rules(replay, tuple(line for difference in differences.values() for line in difference.schema))
    folded = content_swap.no_longer_open(session, replay).count() if replay.is_whole else 0
    chosen = None if keys is None else keys.count()
    return Prepared(differences, changes, chosen, content_swap.count_open(session, replay), folded)


def _refuse_other_rules(replay: ReplaySpec, changes: tuple[str, ...]) -> None:
    if changes and not replay.is_whole:
        listed = "; ".join(changes)
        raise JobRefusedError(
            f"table {replay.silver.table}: its rules have changed ({listed}): replay the whole table, not some keys"
        )


def _compare(session: SparkSession, replay: ReplaySpec, layer: str, version: int, keys: DataFrame | None) -> Difference:
    live, shadow = replay.live[layer], replay.shadow_of(replay.live[layer], layer)
    made = rows_of(session, shadow.path)
    there = rows_of(session, live.path, version) if version >= 0 else made.limit(0)
    own = key_of(live.keys, made.columns)
    return compare_shadow(TwoTables(of_chosen(there, keys), of_chosen(made, keys), own, version, replay.examples))


def swap(session: SparkSession, replay: ReplaySpec) -> Swapped:
    """Put the shadows in the live tables' place.

        bronze ─▶ shadow of silver, of the history ─▶ the difference        nothing live is touched (prepare)
        under silver's turn: shadow caught up ─▶ quarantine ─▶ history ─▶ silver ("done") ─▶ quarantine marked

    A whole table is replaced by one commit that names the shadow's files (spark.upkeep.content_swap), rows of chosen
    keys by one MERGE. Each step can be done again: killed anywhere, a replay from the start ends in the same tables.

    Raises:
        JobRefusedError: somebody else goes on writing a table.
    """
    with turn_of(replay.silver.path, whole=replay.is_whole):
        return run_again(lambda: _swap(session, replay))


def _swap(session: SparkSession, replay: ReplaySpec) -> Swapped:
    for layer in replay.live:
        catch_up(session, replay, layer)
    keys = None
    if not replay.is_whole:
        before = table_of(replay.silver.path).silver_folded()
        keys = chosen_keys(session, replay, find_rules(session, replay.silver, before, as_new=False).spec)
    mark, now = ReplayMark(uuid.uuid4().hex, _versions_before(replay), done=True), dict[str, int]()
    if keys is None:
        content_swap.add_found(session, replay, built_on=mark.before[SILVER])
    if replay.history is not None:
        own = ReplayMark(mark.id, {HISTORY: mark.before[HISTORY]})
        with turn_of(replay.history.path, whole=replay.is_whole):
            now[HISTORY] = _replace(session, replay, HISTORY, keys, own)
    now[SILVER] = _replace(session, replay, SILVER, keys, mark)
    if keys is None:
        content_swap.mark_folded(session, replay)
    return Swapped(now, mark.before)


def _versions_before(replay: ReplaySpec) -> dict[str, int]:
    """What an undo goes back to. A history that a killed attempt has replaced goes back to before that."""
    done, before = newest_mark(replay.silver.path), {SILVER: newest_version(replay.silver.path)}
    before[QUARANTINE] = newest_version(replay.silver.quarantine)
    if replay.history is not None:
        own = newest_mark(replay.history.path)
        is_of_killed = own is not None and not own.done and (done is None or done.id != own.id)
        before[HISTORY] = own.before[HISTORY] if own is not None and is_of_killed else newest_version(replay.history.path)
    return before


def _replace(session: SparkSession, replay: ReplaySpec, layer: str, keys: DataFrame | None, mark: ReplayMark) -> int:
    live = replay.live[layer]
    shadow = replay.shadow_of(live, layer)
    live_folded = table_of(live.path).silver_folded()
    if keys is not None and live_folded is not None:
        return _merge_keys(session, live, of_chosen(rows_of(session, shadow.path), keys), keys, (live_folded, mark))
    folded = table_of(shadow.path).silver_folded()
    assert folded is not None
    # Once there was something in quarantine, runs look there.
    folded = replace(folded, quarantined=max(folded.quarantined, live_folded.quarantined if live_folded else 0))
    content = table_of(shadow.path).snapshot()
    move_files(shadow.path, live.path, content)
    text = silver_metadata(uuid.uuid4().hex, folded, {}, replay=mark.to_dict())
    for tries in reversed(range(_COMMIT_TRIES)):
        try:
            return put_content(live.path, content, text)
        except LeftToSparkError as reason:
            if not tries:
                raise JobRefusedError(f"{live.path} was not replaced: {reason}; run it again") from reason
    raise AssertionError("unreachable")


def _merge_keys(
    session: SparkSession, live: SilverSpec, made: DataFrame, keys: DataFrame, folded_and_mark: tuple[Folded, ReplayMark]
) -> int:
    """All rows of the keys go, however many there are, and those made come: one MERGE."""
    folded, mark = folded_and_mark
    view, operation_id = f"cdc_replay_{uuid.uuid4().hex}", uuid.uuid4().hex
    columns = [quote(name) for name in made.columns]
    rows = made.withColumn("_cdc_gone", sf.lit(False))
    rows = rows.unionByName(keys.withColumn("_cdc_gone", sf.lit(True)), allowMissingColumns=True)
    same = " AND ".join(f"t.{quote(key)} <=> s.{quote(key)}" for key in live.keys)
    sql = (
        f"MERGE INTO {table_at(live.path)} t USING {view} s ON s._cdc_gone AND {same} WHEN MATCHED THEN DELETE "
        f"WHEN NOT MATCHED AND NOT s._cdc_gone THEN INSERT ({', '.join(columns)}) "
        f"VALUES ({', '.join(f's.{name}' for name in columns)})"
    )
    metadata = silver_metadata(operation_id, folded, {}, replay=mark.to_dict())
    execute(session, sql, view=view, rows=rows.transform(compute_once), metadata=metadata)
    return table_of(live.path).find_commit(operation_id).version


@contextmanager
def turn_of(path: str, *, whole: bool) -> Iterator[None]:
    """The table's turn: a task's for a commit of our own, which waits for a writer of Spark that was cut off; else Spark's.

    Raises:
        JobRefusedError: somebody else goes on writing the table.
    """
    until, stack = time.monotonic() + TURN_SECONDS, ExitStack()
    while True:
        try:
            stack.enter_context(lend_to_task(path) if whole else lend_to_spark(path, seconds=TURN_SECONDS))
            break
        except (LeftToSparkError, TableHeldError) as reason:
            if time.monotonic() > until:
                raise JobRefusedError(f"{path}: {reason}; nothing of it was replaced: run it again") from reason
            time.sleep(_POLL_SECONDS)
    with stack:
        yield
