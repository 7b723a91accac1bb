"""From the newest change per key to the changes that are merged: parts and moved rows completed, late keys folded again.

Parts are folded onto the row that the table has (spark.silver.row_fold). Keys with a late event, and keys whose row was
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
from spark.silver.newest_event import after_truncate, fold_per_key, mark_problems, not_of_keys, of_keys
from spark.silver.row_fold import FACTS, OF_TABLE, POSITION, WITHOUT_REST
from spark.silver.silver_table import keeps_deleted_rows
from spark.silver.typed_changes import AFTER_PROBLEM, MOVED, key_slots, problem_value, slot
from spark.specs import META, SilverSpec
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
    seen = mark_problems(key_changes.complete_creates(own, changes, spec), spec)
    return (keys, seen) if seen.where(sf.col("problem").isNotNull()).isEmpty() else None


def _lowest_of_whole(silver_run: SilverRun) -> str | None:
    """The lowest position of a late event; None where the lowest of a key does not say all of its row."""
    rows = silver_run.changes.where(is_late(silver_run.before))
    first = sf.min_by(sf.col("absent").isNotNull(), POSITION).alias("part")
    odd = sf.count_if(sf.col("problem").isNotNull() | (sf.col("_cdc_op") == "t")).alias("odd")
    by_key = rows.groupBy(*key_slots(silver_run.spec)).agg(sf.min(POSITION).alias("lowest"), first, odd)
    lowest = by_key.agg(sf.min("lowest").alias("lowest"), sf.count_if("part").alias("parts"), sf.sum("odd").alias("odd")).first()
    return None if lowest is None or lowest.parts or lowest.odd else lowest.lowest


def events_of_table(silver_run: SilverRun, own: DataFrame, limit: str | None) -> DataFrame:
    """What the table has of the keys of these events: rows with what the events may lack, and where a record of theirs is in
    quarantine, which may have changed the very value."""
    session, spec = silver_run.session, silver_run.spec
    keys = own.select(*key_slots(spec)).distinct().transform(compute_once)
    # A soft delete lacks all of them.
    lacking = own.select(sf.explode("absent")).distinct().collect() if spec.deletes == "hard" else None
    slots = None if lacking is None else [slot(row[0]) for row in lacking]
    rows = key_changes.rows_as_events(silver_run.silver, spec, truncated=limit, slots=slots)
    rows = of_keys(rows, keys, spec)
    if not (silver_run.before and silver_run.before.quarantined and quarantine_table.exists(session, spec)):
        return rows
    marked = keys.withColumn("row_key", quarantine_table.row_key(spec))
    hole = problem_value(AFTER_PROBLEM, sf.lit(WITHOUT_REST[AFTER_PROBLEM]))
    values = {"topic": sf.lit(OF_TABLE), "partition": sf.lit(-1), "offset": sf.lit(-1), POSITION: sf.col("hole"), "problem": hole}
    values |= {name: sf.col(name) for name in key_slots(spec)}
    holes = marked.join(sf.broadcast(quarantine_table.holes(session, spec)), "row_key")
    event = [values.get(f.name, sf.lit(None)).cast(f.dataType).alias(f.name) for f in rows.schema.fields]
    return rows.unionByName(holes.select(*event))


@dataclass
class Settled:
    """What is collected on the way: rows to merge, events that may have a problem, the keys to be folded again."""

    sources: list[DataFrame] = field(default_factory=list)
    problems: list[DataFrame] = field(default_factory=list)
    again: DataFrame | None = None


def complete_changes(silver_run: SilverRun, newest: Newest, truncated: str | None) -> tuple[DataFrame, int]:
    """The changes to merge, one whole row per key, and the number of records put into quarantine for it.

    Keys whose newest change is a whole row pass as they are. Keys with parts are completed from the batch and the
    table. Keys of which an event came late, or whose row was moved from somewhere that the
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
        source, quarantined = _complete_parts(silver_run, newest, truncated, waiting)
    if quarantined or earlier:
        silver_run.supersede(source)
        if silver_run.spec.truncate == "apply" and truncated is not None and (quarantined or truncated != truncated_before):
            silver_run.obsolete(truncated)
    return source, quarantined


def _complete_parts(
    silver_run: SilverRun, newest: Newest, truncated: str | None, waiting: DataFrame | None
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
    whole = newest.rows.where((sf.col("late") == 0) & sf.col("_cdc_op").isNotNull() & ~part_of_row(spec)).drop("absent", *FACTS)
    if limit is not None:
        whole = whole.where(sf.col(POSITION) > limit)
    state.sources.append(whole if state.again is None else not_of_keys(whole, state.again, spec))
    if own is not None:
        _complete(silver_run, own, limit, state)
    if in_log is not None:
        _put_folded(silver_run, in_log[1], state)
    elif everything is not None:
        _fold_again(silver_run, everything, state, marks=waiting is not None)
    if (in_log is not None or everything is not None) and silver_run.before is not None:
        state.sources[:] = [s if "forced" in s.columns else s.withColumn("forced", sf.lit(False)) for s in state.sources]
    source = reduce(DataFrame.unionByName, state.sources)
    if spec.truncate == "soft" and truncated is not None:
        source = _mark_truncated(source, truncated)
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


def _complete(silver_run: SilverRun, own: DataFrame, limit: str | None, state: Settled) -> None:
    own = own if state.again is None else not_of_keys(own, state.again, silver_run.spec)
    if silver_run.before is not None:
        own = own.transform(compute_once)
        own = own.unionByName(events_of_table(silver_run, own, limit))
    seen = mark_problems(own, silver_run.spec)
    state.sources.append(fold_per_key(seen, silver_run.spec))
    state.problems.append(seen.where(sf.col("topic") != OF_TABLE))


def _fold_again(silver_run: SilverRun, everything: DataFrame, state: Settled, *, marks: bool) -> None:
    assert state.again is not None
    own = of_keys(everything, state.again, silver_run.spec).transform(compute_once)
    completed = key_changes.complete_creates(own, everything, silver_run.spec)
    seen = mark_problems(completed, silver_run.spec)
    if marks:
        silver_run.mark(seen)
    _put_folded(silver_run, seen, state)


def _put_folded(silver_run: SilverRun, seen: DataFrame, state: Settled) -> None:
    assert state.again is not None
    folded = fold_per_key(seen, silver_run.spec)
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


def _mark_truncated(source: DataFrame, truncated: str) -> DataFrame:
    """Rows below a TRUNCATE that keeps them; what was deleted before it stays so."""
    gone = (sf.col(POSITION) < truncated) & (sf.col("_cdc_op") != "d")
    return source.withColumns(
        {
            "_cdc_op": sf.when(gone, "t").otherwise(sf.col("_cdc_op")),
            POSITION: sf.when(gone, truncated).otherwise(sf.col(POSITION)),
        }
    )
