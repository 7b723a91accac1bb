"""From the newest change per key to the changes that are merged: parts and moved rows completed, late keys folded again.

Parts are completed from the batch and, by the MERGE, from the table; not where the row is missing, a TRUNCATE or a
soft delete came after it, or a record in quarantine lies between. Keys with a late event, and keys whose row was
moved from somewhere that batch and table do not tell, are folded again from the whole of bronze, or from what the log
still holds where that says it all. What that fold says replaces the table's row whatever its position.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark.bronze.change_log import events_from, highest_gone
from spark.silver import key_changes, quarantine_table
from spark.silver.keyed_batch import Newest, SilverRun, is_late, part_of_row, set_aside
from spark.silver.newest_event import FACTS, POSITION, after_truncate, fold_per_key, mark_problems, not_of_keys, of_keys
from spark.silver.row_fold import WITHOUT_REST
from spark.silver.silver_table import keeps_deleted_rows
from spark.silver.typed_changes import AFTER_PROBLEM, MOVED, NO_ROW, key_slots, problem_value
from spark.specs import DELETED, META, SilverSpec
from spark.table.identifiers import quote
from spark.table.spark_session import compute_once


def fold_events_in_log(silver_run: SilverRun, keys: DataFrame, truncated: str | None) -> tuple[DataFrame, DataFrame] | None:
    """The keys to be folded again, and their events, completed and without a problem; None: the log does not say it all.

    For late events of a table whose oldest records are with the backup. A key is folded again from its lowest late
    event on. That is enough if this event says the whole row (or that it is gone), and if the log still has every event
    above it, of all keys: rows that were moved from the key lie above it too. What is gone has to lie below the lowest
    late event, then. Where anything found so cannot be folded, or a late event is no such one, all is asked for.
    """
    spec = silver_run.spec
    if silver_run.before is None or keeps_deleted_rows(spec) or not spec.envelope.startswith("debezium"):
        return None
    if silver_run.before.quarantined:
        return None  # one of these may leave a row in doubt without a position that says where
    gone = highest_gone(spec)
    lowest = None if gone is None else _lowest_of_whole(silver_run)
    if gone is None or lowest is None or lowest <= gone:
        return None
    rows = silver_run.decode(events_from(silver_run.session, spec, silver_run.committed.version, lowest))
    changes = silver_run.less_dropped(after_truncate(rows, truncated))
    keys = key_changes.follow_moves(keys.distinct().transform(compute_once), changes, spec)
    own = of_keys(changes, keys, spec).transform(compute_once)
    seen = mark_problems(key_changes.complete_creates(own, changes, spec), spec, from_start=True)
    return (keys, seen) if seen.where(sf.col("problem").isNotNull()).isEmpty() else None


def _lowest_of_whole(silver_run: SilverRun) -> str | None:
    """The lowest position of a late event; None where the lowest of a key does not say all of its row."""
    rows = silver_run.changes.where(is_late(silver_run.before))
    first = sf.min_by(sf.col("absent").isNotNull(), POSITION).alias("part")
    odd = sf.count_if(sf.col("problem").isNotNull() | (sf.col("_cdc_op") == "t")).alias("odd")
    by_key = rows.groupBy(*key_slots(silver_run.spec)).agg(sf.min(POSITION).alias("lowest"), first, odd)
    lowest = by_key.agg(sf.min("lowest").alias("lowest"), sf.count_if("part").alias("parts"), sf.sum("odd").alias("odd")).first()
    return None if lowest is None or lowest.parts or lowest.odd else lowest.lowest


def parts_without_row(
    silver_run: SilverRun, completed: DataFrame, seen: DataFrame, *, truncated: str | None
) -> tuple[DataFrame, DataFrame]:
    """`complete_creates` less the parts that find no row, and the events of those with their problem.

    A row cannot complete a change when there is none, when a TRUNCATE or a soft delete came after it, or when a record
    of the same key between the row and the change is in quarantine: that record may have changed the very value.
    """
    session, spec, target = silver_run.session, silver_run.spec, silver_run.silver
    keys = key_slots(spec)
    gone = sf.coalesce(sf.col(DELETED), sf.lit(False)) if keeps_deleted_rows(spec) else sf.lit(False)
    if truncated is not None and spec.truncate == "apply":
        gone = gone | (sf.col("_cdc_position") < truncated)
    rows = target.select(
        *[sf.col(quote(name)).alias(f"t_{k}") for name, k in zip(spec.keys, keys, strict=True)],
        sf.when(~gone, sf.col("_cdc_position")).alias("row_position"),
    )
    same = [sf.col(k).eqNullSafe(sf.col(f"t_{k}")) for k in keys]
    parts = completed.where(sf.col("absent").isNotNull())
    compared = (
        parts.join(rows, same, "left").drop(*[f"t_{k}" for k in keys]).withColumn("row_key", quarantine_table.row_key(spec))
    )
    if quarantine_table.exists(session, spec):
        compared = compared.join(sf.broadcast(quarantine_table.holes(session, spec)), "row_key", "left")
    else:
        compared = compared.withColumn("hole", sf.lit(None).cast("string"))
    behind = sf.col("hole").isNotNull() & (sf.col("row_position").isNull() | (sf.col("hole") >= sf.col("row_position")))
    lost = compared.where(sf.col("row_position").isNull() | (behind & (sf.col("_cdc_op") != "d"))).transform(compute_once)
    kept = completed.join(lost.select(*[sf.col(k).alias(f"l_{k}") for k in keys]), _same(keys), "left_anti")
    # A delete of a row that is not there needs nothing; any other change of it is a part without the rest.
    changed = lost.where(sf.col("_cdc_op") != "d").select(*keys, "hole")
    events = of_keys(seen.where(sf.col("problem").isNull()), changed, spec)
    blocked = of_keys(events, changed.where(sf.col("hole").isNotNull()), spec)
    orphans = of_keys(events, changed.where(sf.col("hole").isNull()), spec)
    no_row, hole = (problem_value(name, sf.lit(WITHOUT_REST[name])) for name in (NO_ROW, AFTER_PROBLEM))
    return kept, orphans.withColumn("problem", no_row).unionByName(blocked.withColumn("problem", hole))


def _same(keys: list[str]) -> list:
    return [sf.col(k).eqNullSafe(sf.col(f"l_{k}")) for k in keys]


@dataclass
class Settled:
    """What is collected on the way: rows to merge, events that may have a problem, the keys to be folded again."""

    sources: list[DataFrame] = field(default_factory=list)
    problems: list[DataFrame] = field(default_factory=list)
    again: DataFrame | None = None


def complete_changes(silver_run: SilverRun, newest: Newest, truncated: str | None, *, looked_up: bool) -> tuple[DataFrame, int]:
    """The changes to merge, one per key, and the number of records put into quarantine for it.

    `looked_up` compares parts of rows with the table first; without it the MERGE stops at the first that finds no row.

    Keys whose newest change is a whole row pass as they are. Keys with parts are completed from the batch, and the
    MERGE does the rest from the table. Keys of which an event came late, or whose row was moved from somewhere that the
    batch and the table do not tell, are folded again from the whole of bronze, with the keys that their rows were moved
    to. What that fold says replaces the table's row whatever its position: an event that comes late below a part of a
    row changes what the part had carried on, at the part's own position.
    """
    truncated_before = silver_run.before.truncated if silver_run.before else None
    if newest.small and not newest.facts.plain:
        silver_run = silver_run.hold_changes()
    earlier = bool(silver_run.before and silver_run.before.quarantined)
    waiting = key_changes.waiting(silver_run.session, silver_run.spec, silver_run.changes) if earlier else None
    if newest.facts.plain and truncated_before is None and truncated is None and waiting is None:
        source, quarantined = newest.rows.drop("absent", *FACTS), 0
    else:
        source, quarantined = _complete_parts(silver_run, newest, truncated, waiting, looked_up=looked_up)
    if quarantined or earlier:
        silver_run.supersede(source)
        if silver_run.spec.truncate == "apply" and truncated is not None and (quarantined or truncated != truncated_before):
            silver_run.obsolete(truncated)
    return source, quarantined


def _complete_parts(
    silver_run: SilverRun, newest: Newest, truncated: str | None, waiting: DataFrame | None, *, looked_up: bool
) -> tuple[DataFrame, int]:
    spec, facts = silver_run.spec, newest.facts
    limit = truncated if spec.truncate == "apply" else None
    state = Settled(problems=[silver_run.changes] if facts.problems else [])
    own = _parts(silver_run, newest, limit, state) if facts.parts else None
    in_log = None
    if facts.late_keys:
        late_keys = newest.rows.where("late > 0").select(*key_slots(spec))
        if state.again is None and waiting is None and not facts.problems:
            in_log = fold_events_in_log(silver_run, late_keys, limit)
        _more(state, late_keys, silver_run)
    everything = None
    if in_log is not None:
        state.again = in_log[0]
    elif state.again is not None or waiting is not None:
        everything = silver_run.less_dropped(after_truncate(silver_run.all_changes, limit))
        if waiting is not None:
            _more(state, quarantine_table.at(everything, waiting), silver_run)
        if state.again is not None and silver_run.before is not None:
            # What changes a row also changes the rows that were made of it.
            state.again = key_changes.follow_moves(state.again, everything, spec)
    whole = newest.rows.where((sf.col("late") == 0) & sf.col("_cdc_op").isNotNull() & ~part_of_row(spec)).drop(*FACTS)
    if limit is not None:
        whole = whole.where(sf.col(POSITION) > limit)
    state.sources.append(whole if state.again is None else not_of_keys(whole, state.again, spec))
    if own is not None:
        _complete(silver_run, own, state, truncated=truncated, looked_up=looked_up)
    if in_log is not None:
        _put_folded(silver_run, in_log[1], state)
    elif everything is not None:
        _fold_again(silver_run, everything, state, marks=waiting is not None)
    if (in_log is not None or everything is not None) and silver_run.before is not None:
        state.sources[:] = [s if "forced" in s.columns else s.withColumn("forced", sf.lit(False)) for s in state.sources]
    source = reduce(DataFrame.unionByName, state.sources)
    if spec.truncate == "soft" and truncated is not None:
        source = _mark_truncated(source, truncated)
    if not (facts.parts and silver_run.before is not None):
        source = source.drop("absent")
    return source, set_aside(silver_run, state.problems, silver_run.all_events if everything is not None else silver_run.events)


def _more(state: Settled, rows: DataFrame, silver_run: SilverRun) -> None:
    keys = rows.select(*key_slots(silver_run.spec))
    state.again = (keys if state.again is None else state.again.unionByName(keys)).distinct().transform(compute_once)


def _parts(silver_run: SilverRun, newest: Newest, limit: str | None, state: Settled) -> DataFrame:
    """The events of the keys whose newest change is a part, with their moved rows completed where that can be known here."""
    spec = silver_run.spec
    partial_keys = newest.rows.where((sf.col("late") == 0) & part_of_row(spec))
    changes = silver_run.less_dropped(after_truncate(silver_run.changes, limit))
    own = of_keys(changes, partial_keys, spec)
    if not newest.facts.moved:
        return own
    if silver_run.before is None:
        return key_changes.complete_creates(own.transform(compute_once), changes, spec).transform(compute_once)
    # What is in quarantine may be missing in a row of the table: only bronze tells.
    rows = key_changes.rows_as_events(silver_run.silver, spec, truncated=limit).where(sf.lit(not silver_run.before.quarantined))
    own = key_changes.complete_creates(own.transform(compute_once), changes, spec, rows=rows).transform(compute_once)
    unknown = own.where(sf.col("problem.error_class") == MOVED)
    if not unknown.isEmpty():
        _more(state, unknown, silver_run)
    return own


def _complete(silver_run: SilverRun, own: DataFrame, state: Settled, *, truncated: str | None, looked_up: bool) -> None:
    spec = silver_run.spec
    own = own if state.again is None else not_of_keys(own, state.again, spec)
    seen = mark_problems(own, spec, from_start=silver_run.before is None)
    completed = fold_per_key(seen, spec)
    if silver_run.before is None:
        completed = existing(completed)
    elif looked_up and not spec.partial:
        completed, lost = parts_without_row(silver_run, completed, seen, truncated=truncated)
        state.problems.append(lost)
    state.sources.append(completed)
    state.problems.append(seen)


def _fold_again(silver_run: SilverRun, everything: DataFrame, state: Settled, *, marks: bool) -> None:
    assert state.again is not None
    own = of_keys(everything, state.again, silver_run.spec).transform(compute_once)
    completed = key_changes.complete_creates(own, everything, silver_run.spec)
    seen = mark_problems(completed, silver_run.spec, from_start=True)
    if marks:
        silver_run.mark(seen)
    _put_folded(silver_run, seen, state)


def _put_folded(silver_run: SilverRun, seen: DataFrame, state: Settled) -> None:
    assert state.again is not None
    folded = existing(fold_per_key(seen, silver_run.spec))
    if silver_run.before is not None:
        if not keeps_deleted_rows(silver_run.spec):
            nothing_left = not_of_keys(state.again, folded, silver_run.spec)
            folded = folded.unionByName(deletes_of(nothing_left, folded, silver_run.spec))
        folded = folded.withColumn("forced", sf.lit(True))
    state.sources.append(folded)
    state.problems.append(seen)


def deletes_of(keys: DataFrame, like: DataFrame, spec: SilverSpec) -> DataFrame:
    """A delete of each key, in the columns of changes, below every position: it is for a MERGE of `forced` changes."""
    types = {f.name: f.dataType for f in like.schema.fields}
    own = key_slots(spec)
    empty = [sf.lit(None).cast(types[n]).alias(n) for n in like.columns if n not in (*own, *META)]
    facts = [
        sf.lit("").alias(POSITION),
        sf.lit("d").alias("_cdc_op"),
        sf.lit(None).cast(types["_cdc_source_ts"]).alias("_cdc_source_ts"),
        sf.lit(None).cast(types["_cdc_tx_id"]).alias("_cdc_tx_id"),
    ]
    return keys.select(*own, *empty, *facts).select(*like.columns)


def existing(completed: DataFrame) -> DataFrame:
    """Less the soft deletes of rows that nobody has seen: there is nothing to keep of them."""
    return completed.where((sf.col("_cdc_op") != "d") | sf.col("absent").isNull())


def _mark_truncated(source: DataFrame, truncated: str) -> DataFrame:
    gone = sf.col(POSITION) < truncated
    return source.withColumns(
        {
            "_cdc_op": sf.when(gone, "t").otherwise(sf.col("_cdc_op")),
            POSITION: sf.when(gone, truncated).otherwise(sf.col(POSITION)),
        }
    )
