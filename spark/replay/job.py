"""A replay in two steps, and back: shadows are built and compared, then they take the live tables' place.

    bronze ─▶ shadow of silver, of the history ─▶ the difference        nothing live is touched
    under silver's turn: shadow caught up ─▶ quarantine ─▶ history ─▶ silver ("done") ─▶ quarantine marked

A whole table is replaced by one commit that names the shadow's files (spark.replay.table_content), rows of chosen keys by one
MERGE. Each step can be done again: killed anywhere, a replay from the start ends in the same tables.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.delta.cluster import compute_once
from spark.delta.commits import Folded, silver_metadata
from spark.delta.conflicts import run_again
from spark.delta.identifiers import quote, table_at
from spark.delta.lease import TWO_MINUTES, lend_to_spark, lend_to_task
from spark.delta.live_files import read_live_table
from spark.delta.log import commit_of, silver_folded
from spark.delta.statement import execute
from spark.errors import LeaseHeldError, LeftToSparkError, ReplayError
from spark.lake.place import is_reached
from spark.replay import quarantine_swap
from spark.replay.chosen_keys import chosen_keys, of_chosen
from spark.replay.marks import ReplayMark, newest_mark, newest_version
from spark.replay.replay_spec import HISTORY, QUARANTINE, SILVER, Difference, Prepared, ReplaySpec, Swapped
from spark.replay.shadow import build_shadow, catch_up, rules_of_live, seed_quarantine
from spark.replay.shadow_difference import TwoTables, compare, key_of, rows_of
from spark.replay.table_content import move_files, put_content
from spark.replay.todays_rules import find_rules
from spark.specs import SilverSpec

TURN_SECONDS = TWO_MINUTES + 60.0
"""For so long others may write the table; a writer that was cut off is waited for."""
_COMMIT_TRIES, _POLL_SECONDS = 5, 0.5


def prepare(session: SparkSession, asked: ReplaySpec) -> Prepared:
    """Build the shadows below `asked.folder`, and compare them with the live tables.

    Raises:
        ReplayError: the table cannot be made again from what there is, or rows are chosen and the rules are others.
    """
    if not is_reached(asked.folder):
        raise ReplayError(f"{asked.folder}: a replay needs a lake whose files are read here: a folder, s3a:// or gs://")
    versions = {layer: newest_version(spec.path) for layer, spec in asked.live.items()}
    rules = {layer: rules_of_live(session, asked, layer, version) for layer, version in versions.items()}
    changes = tuple(f"{layer}: {change}" for layer, each in rules.items() for change in each.changes)
    # What is asked for wrongly is told before all of bronze is folded.
    _refuse_other_rules(asked, changes)
    keys = chosen_keys(session, asked, rules[SILVER].spec)
    seed_quarantine(session, asked)
    for layer, version in versions.items():
        build_shadow(session, asked, layer, (rules[layer], version))
    found = {layer: _compare(session, asked, layer, versions[layer], keys) for layer in asked.live}
    _refuse_other_rules(asked, tuple(line for each in found.values() for line in each.schema))
    folded = quarantine_swap.no_longer_open(session, asked).count() if asked.is_whole else 0
    chosen = None if keys is None else keys.count()
    return Prepared(found, changes, chosen, quarantine_swap.count_open(session, asked), folded)


def _refuse_other_rules(asked: ReplaySpec, changes: tuple[str, ...]) -> None:
    if changes and not asked.is_whole:
        told = "; ".join(changes)
        raise ReplayError(f"table {asked.silver.table}: its rules have changed ({told}): replay the whole table, not some keys")


def _compare(session: SparkSession, asked: ReplaySpec, layer: str, version: int, keys: DataFrame | None) -> Difference:
    live, shadow = asked.live[layer], asked.shadow_of(asked.live[layer], layer)
    made = rows_of(session, shadow.path)
    there = rows_of(session, live.path, version) if version >= 0 else made.limit(0)
    own = key_of(live.keys, made.columns)
    return compare(TwoTables(of_chosen(there, keys), of_chosen(made, keys), own, version, asked.examples))


def swap(session: SparkSession, asked: ReplaySpec) -> Swapped:
    """Put the shadows in the live tables' place.

    Raises:
        ReplayError: somebody else goes on writing a table.
    """
    with turn_of(asked.silver.path, whole=asked.is_whole):
        return run_again(lambda: _swap(session, asked))


def _swap(session: SparkSession, asked: ReplaySpec) -> Swapped:
    for layer in asked.live:
        catch_up(session, asked, layer)
    keys = None
    if not asked.is_whole:
        before = silver_folded(session, asked.silver.path)
        keys = chosen_keys(session, asked, find_rules(session, asked.silver, before, as_new=False).spec)
    mark, now = ReplayMark(uuid.uuid4().hex, _versions_before(asked), done=True), dict[str, int]()
    if keys is None:
        quarantine_swap.add_found(session, asked, built_on=mark.before[SILVER])
    if asked.history is not None:
        own = ReplayMark(mark.id, {HISTORY: mark.before[HISTORY]})
        with turn_of(asked.history.path, whole=asked.is_whole):
            now[HISTORY] = _replace(session, asked, HISTORY, keys, own)
    now[SILVER] = _replace(session, asked, SILVER, keys, mark)
    if keys is None:
        quarantine_swap.mark_folded(session, asked)
    return Swapped(now, mark.before)


def _versions_before(asked: ReplaySpec) -> dict[str, int]:
    """What an undo goes back to. A history that a killed attempt has replaced goes back to before that."""
    done, before = newest_mark(asked.silver.path), {SILVER: newest_version(asked.silver.path)}
    before[QUARANTINE] = newest_version(asked.silver.quarantine)
    if asked.history is not None:
        own = newest_mark(asked.history.path)
        is_of_killed = own is not None and not own.done and (done is None or done.id != own.id)
        before[HISTORY] = own.before[HISTORY] if own is not None and is_of_killed else newest_version(asked.history.path)
    return before


def _replace(session: SparkSession, asked: ReplaySpec, layer: str, keys: DataFrame | None, mark: ReplayMark) -> int:
    live = asked.live[layer]
    shadow = asked.shadow_of(live, layer)
    known = silver_folded(session, live.path)
    if keys is not None and known is not None:
        return _merge_keys(session, live, of_chosen(rows_of(session, shadow.path), keys), keys, (known, mark))
    folded = silver_folded(session, shadow.path)
    assert folded is not None
    # Once there was something in quarantine, runs look there.
    folded = replace(folded, quarantined=max(folded.quarantined, known.quarantined if known else 0))
    content = read_live_table(shadow.path)
    move_files(shadow.path, live.path, content)
    text = silver_metadata(uuid.uuid4().hex, folded, {}, replay=mark.to_dict())
    for tries in reversed(range(_COMMIT_TRIES)):
        try:
            return put_content(live.path, content, text)
        except LeftToSparkError as reason:
            if not tries:
                raise ReplayError(f"{live.path} was not replaced: {reason}; run it again") from reason
    raise AssertionError("unreachable")


def _merge_keys(
    session: SparkSession, live: SilverSpec, made: DataFrame, keys: DataFrame, known: tuple[Folded, ReplayMark]
) -> int:
    """All rows of the keys go, however many there are, and those made come: one MERGE."""
    folded, mark = known
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
    return commit_of(session, live.path, operation_id).version


@contextmanager
def turn_of(path: str, *, whole: bool) -> Iterator[None]:
    """The table's turn: a task's for a commit of our own, which waits for a writer of Spark that was cut off; else Spark's.

    Raises:
        ReplayError: somebody else goes on writing the table.
    """
    until, stack = time.monotonic() + TURN_SECONDS, ExitStack()
    while True:
        try:
            stack.enter_context(lend_to_task(path) if whole else lend_to_spark(path, seconds=TURN_SECONDS))
            break
        except (LeftToSparkError, LeaseHeldError) as reason:
            if time.monotonic() > until:
                raise ReplayError(f"{path}: {reason}; nothing of it was replaced: run it again") from reason
            time.sleep(_POLL_SECONDS)
    with stack:
        yield
