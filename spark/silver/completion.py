"""From the newest change per key to the changes that are merged: parts and moved rows completed, late keys folded again.

Keys whose newest change is a whole row pass as they are. Keys with parts are completed from the batch, and the MERGE
does the rest from the table. Keys of which an event came late, or whose row was moved from somewhere that the batch and
the table do not tell, are folded again from the whole of bronze, with the keys that their rows were moved to. What that
fold says replaces the table's row whatever its position: an event that comes late below a part of a row changes what the
part had carried on, at the part's own position.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark.delta.cluster import compute_once
from spark.silver import key_changes, quarantine
from spark.silver.batch import Newest, SilverRun, part_of_row, set_aside
from spark.silver.changes import key_slots
from spark.silver.fold import FACTS, POSITION, after_truncate, fold_per_key, mark_problems, not_of_keys, of_keys
from spark.silver.late_in_log import fold_events_in_log
from spark.silver.partial_rows import without_row
from spark.silver.problems import MOVED
from spark.silver.table import soft
from spark.specs import META, SilverSpec


@dataclass
class Settled:
    """What is collected on the way: rows to merge, events that may have a problem, the keys to be folded again."""

    sources: list[DataFrame] = field(default_factory=list)
    problems: list[DataFrame] = field(default_factory=list)
    again: DataFrame | None = None


def complete_changes(work: SilverRun, found: Newest, truncated: str | None, *, looked_up: bool) -> tuple[DataFrame, int]:
    """The changes to merge, one per key, and the number of records put into quarantine for it.

    `looked_up` compares parts of rows with the table first; without it the MERGE stops at the first that finds no row.
    """
    known = work.before.truncated if work.before else None
    if found.small and not found.facts.plain:
        work = work.hold_changes()
    earlier = bool(work.before and work.before.quarantined)
    waiting = key_changes.waiting(work.session, work.spec, work.changes) if earlier else None
    if found.facts.plain and known is None and truncated is None and waiting is None:
        source, held = found.rows.drop("absent", *FACTS), 0
    else:
        source, held = _complete_parts(work, found, truncated, waiting, looked_up=looked_up)
    if held or earlier:
        work.supersede(source)
        if work.spec.truncate == "apply" and truncated is not None and (held or truncated != known):
            work.obsolete(truncated)
    return source, held


def _complete_parts(
    work: SilverRun, found: Newest, truncated: str | None, waiting: DataFrame | None, *, looked_up: bool
) -> tuple[DataFrame, int]:
    spec, facts = work.spec, found.facts
    limit = truncated if spec.truncate == "apply" else None
    state = Settled(problems=[work.changes] if facts.problems else [])
    own = _parts(work, found, limit, state) if facts.parts else None
    in_log = None
    if facts.late_keys:
        late_keys = found.rows.where("late > 0").select(*key_slots(spec))
        if state.again is None and waiting is None and not facts.problems:
            in_log = fold_events_in_log(work, late_keys, limit)
        _more(state, late_keys, work)
    everything = None
    if in_log is not None:
        state.again = in_log[0]
    elif state.again is not None or waiting is not None:
        everything = work.less_dropped(after_truncate(work.all_changes, limit))
        if waiting is not None:
            _more(state, quarantine.at(everything, waiting), work)
        if state.again is not None and work.before is not None:
            # What changes a row also changes the rows that were made of it.
            state.again = key_changes.follow_moves(state.again, everything, spec)
    whole = found.rows.where((sf.col("late") == 0) & sf.col("_cdc_op").isNotNull() & ~part_of_row(spec)).drop(*FACTS)
    if limit is not None:
        whole = whole.where(sf.col(POSITION) > limit)
    state.sources.append(whole if state.again is None else not_of_keys(whole, state.again, spec))
    if own is not None:
        _complete(work, own, state, truncated=truncated, looked_up=looked_up)
    if in_log is not None:
        _put_folded(work, in_log[1], state)
    elif everything is not None:
        _fold_again(work, everything, state, marks=waiting is not None)
    if (in_log is not None or everything is not None) and work.before is not None:
        state.sources[:] = [s if "forced" in s.columns else s.withColumn("forced", sf.lit(False)) for s in state.sources]
    source = reduce(DataFrame.unionByName, state.sources)
    if spec.truncate == "soft" and truncated is not None:
        source = _mark_truncated(source, truncated)
    if not (facts.parts and work.before is not None):
        source = source.drop("absent")
    return source, set_aside(work, state.problems, work.all_events if everything is not None else work.events)


def _more(state: Settled, rows: DataFrame, work: SilverRun) -> None:
    keys = rows.select(*key_slots(work.spec))
    state.again = (keys if state.again is None else state.again.unionByName(keys)).distinct().transform(compute_once)


def _parts(work: SilverRun, found: Newest, limit: str | None, state: Settled) -> DataFrame:
    """The events of the keys whose newest change is a part, with their moved rows completed where that can be known here."""
    spec = work.spec
    wanted = found.rows.where((sf.col("late") == 0) & part_of_row(spec))
    changes = work.less_dropped(after_truncate(work.changes, limit))
    own = of_keys(changes, wanted, spec)
    if not found.facts.moved:
        return own
    if work.before is None:
        return key_changes.complete_creates(own.transform(compute_once), changes, spec).transform(compute_once)
    # What is in quarantine may be missing in a row of the table: only bronze tells.
    rows = key_changes.rows_as_events(work.silver, spec, truncated=limit).where(sf.lit(not work.before.quarantined))
    own = key_changes.complete_creates(own.transform(compute_once), changes, spec, rows=rows).transform(compute_once)
    unknown = own.where(sf.col("problem.error_class") == MOVED)
    if not unknown.isEmpty():
        _more(state, unknown, work)
    return own


def _complete(work: SilverRun, own: DataFrame, state: Settled, *, truncated: str | None, looked_up: bool) -> None:
    spec = work.spec
    own = own if state.again is None else not_of_keys(own, state.again, spec)
    # Looked at more than once; the checkpoint also keeps the plans behind it small, which is where the time goes.
    seen = mark_problems(own, spec, from_start=work.before is None).transform(compute_once)
    completed = fold_per_key(seen, spec).transform(compute_once)
    if work.before is None:
        completed = existing(completed)
    elif looked_up and not spec.partial:
        completed, lost = without_row(work, completed, seen, truncated=truncated)
        state.problems.append(lost)
    state.sources.append(completed)
    state.problems.append(seen)


def _fold_again(work: SilverRun, everything: DataFrame, state: Settled, *, marks: bool) -> None:
    assert state.again is not None
    own = of_keys(everything, state.again, work.spec).transform(compute_once)
    completed = key_changes.complete_creates(own, everything, work.spec)
    seen = mark_problems(completed, work.spec, from_start=True).transform(compute_once)
    if marks:
        work.mark(seen)
    _put_folded(work, seen, state)


def _put_folded(work: SilverRun, seen: DataFrame, state: Settled) -> None:
    assert state.again is not None
    folded = existing(fold_per_key(seen, work.spec))
    if work.before is not None:
        folded = folded.transform(compute_once)
        if not soft(work.spec):
            nothing_left = not_of_keys(state.again, folded, work.spec)
            folded = folded.unionByName(deletes_of(nothing_left, folded, work.spec))
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
