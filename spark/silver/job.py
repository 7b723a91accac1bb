"""Silver: the current state of one table, folded from what bronze has committed and silver has not.

    bronze at one version ─▶ new rows ─▶ typed changes ─▶ one change per key ─▶ MERGE, guarded by position
                                              └─▶ quarantine, written first

The result does not depend on how the events were cut, repeated or shuffled: positions order them (spark.positions),
the MERGE applies a change only above the row's own position, and an event at or below what silver has already folded
in its partition (spark.silver.late) makes its key be folded again from the whole of bronze, so that a row deleted since cannot
come back. The folded positions are in the commit that holds the rows: a job killed anywhere is simply
run again. Reading bronze at a fixed version keeps the MERGE's source the same in all its passes.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from spark.delta import plans
from spark.delta.commits import CommittedTopic, Folded, fold, silver_metadata
from spark.delta.conflicts import run_again
from spark.delta.failures import translate_stops
from spark.delta.lease import lend_to_spark
from spark.delta.log import Commit, commit_of, fold_history, silver_folded
from spark.errors import NotPlainError, RowMissingError
from spark.schema import generation
from spark.schema.evolution import align_columns, at_birth, record_birth
from spark.silver import batch, completion, keyless, late, merge, multiset
from spark.silver import table as silver_table
from spark.specs import JobResult, SilverSpec

Figures = dict[str, int]
Run = TypeVar("Run", bound=batch.SilverRun)


def run(session: SparkSession, spec: SilverSpec) -> JobResult:
    """Bring the table up to what bronze has committed."""
    with lend_to_spark(spec.path):
        return run_again(lambda: _run(session, spec))


def _run(session: SparkSession, spec: SilverSpec) -> JobResult:
    started = time.monotonic()
    committed = fold_history(session, spec.bronze_path, fold, up_to=spec.folded_limit)
    topics = committed.of_table(spec.table)
    before = silver_folded(session, spec.path)
    spec = at_birth(spec) if before is None else align_columns(session, spec, after=before.highest)
    silver_table.check_names(spec)
    if not has_news(topics, before):
        return result(spec, None, topics, before, {}, started)
    records = sum(fresh(topics, before).values())
    plans.suit(session, events=records, rows=plans.rows_at_most(topics.values()))
    if before is not None:
        silver_table.mark_deletes(session, spec)
    work = batch.SilverRun(session, spec, committed, before, uuid.uuid4().hex)
    if spec.keys:
        commit, figures = _fold(work, records)
    else:
        commit, figures = (multiset.apply if spec.multiset else keyless.append)(work)
    if before is None:
        record_birth(session, spec)
    silver_table.tune(session, spec, commit)
    return result(spec, commit, topics, before, figures, started)


def _fold(work: batch.SilverRun, records: int) -> tuple[Commit, Figures]:
    if work.before is None and records > batch.LOCAL_UP_TO and not (work.first_floor or work.spec.renewed):
        try:
            with translate_stops(NotPlainError):
                return _commit(work, batch.read_plain_batch(work), None, looked_up=False)
        except NotPlainError:
            pass  # nothing is committed: the rows are held below, and looked at
    with newest_batch(work, records) as (work, found, truncated):
        try:
            with translate_stops(RowMissingError):
                return _commit(work, found, truncated, looked_up=work.must_look or bool(found.facts.problems))
        except RowMissingError:
            return _commit(work, found, truncated, looked_up=True)


@contextmanager
def newest_batch(work: Run, records: int) -> Iterator[tuple[Run, batch.Newest, str | None]]:
    """The newest change per key, what it goes into, and the position of the newest TRUNCATE, or of what works as one."""
    with batch.newest(work, late.late(work.before), records) as found:
        truncated = batch.position_of_truncate(work, found.facts)
        begun = generation.generation_start(work.events, work.spec, work.before.truncated if work.before else None)
        begun = max(filter(None, (begun, work.first_floor)), default=None)
        if begun is not None and begun > (truncated or ""):
            yield *_renew_table(work, found, begun), begun
        else:
            yield work, found, truncated


def _renew_table(work: Run, found: batch.Newest, begun: str) -> tuple[Run, batch.Newest]:
    """The full snapshot of a table made anew works as a TRUNCATE right before it, whatever the table does about those."""
    mode = "soft" if silver_table.soft(work.spec) else "apply"
    facts = replace(found.facts, truncated=begun)
    return replace(work, spec=replace(work.spec, truncate=mode)), replace(found, facts=facts)


def _commit(work: batch.SilverRun, found: batch.Newest, truncated: str | None, *, looked_up: bool) -> tuple[Commit, Figures]:
    session, spec, before = work.session, work.spec, work.before
    source, quarantined = completion.complete_changes(work, found, truncated, looked_up=looked_up)
    figures = {"late_events": found.facts.late_events, "refolded_keys": found.facts.late_keys}
    figures |= {"carried_keys": found.facts.parts, "quarantined": quarantined}
    done = work.fold_state(truncated=truncated, quarantined=quarantined)
    metadata = silver_metadata(work.operation_id, done, figures)
    figures["positions_remembered"] = late.position_count(done)
    if before is None:
        rows = source if silver_table.soft(spec) else source.where(sf.col("_cdc_op") != "d")
        writer = (
            silver_table.name_columns(rows, spec).write.format("delta").mode("error").options(**silver_table.properties(spec))
        )
        writer.option("userMetadata", metadata).save(spec.path)
        commit = commit_of(session, spec.path, work.operation_id)
        return commit, {**figures, "inserted": commit.count("numOutputRows")}
    newer = truncated if truncated != before.truncated else None
    commit = merge.execute(session, spec, source, metadata, work.operation_id, truncated=newer)
    names = {"inserted": "Inserted", "updated": "Updated", "deleted": "Deleted"}
    return commit, {**figures, **{k: commit.count(f"numTargetRows{v}") for k, v in names.items()}}


def has_news(topics: Mapping[str, CommittedTopic], before: Folded | None) -> bool:
    """Whether bronze holds of the table's topics what silver has not folded."""
    if before is None:
        return bool(topics)
    return any(
        (known := before.topics.get(name)) is None
        or state.epoch > known.epoch
        or any(position > known.positions.get(p, 0) for p, position in state.positions.items())
        for name, state in topics.items()
    )


def fresh(topics: Mapping[str, CommittedTopic], before: Folded | None) -> Counter[str]:
    """Records by op that bronze has beyond what silver had folded."""
    fresh: Counter[str] = Counter()
    for name, state in topics.items():
        known = before.topics.get(name) if before else None
        fresh += Counter(state.by_op) - Counter(known.by_op if known and known.epoch == state.epoch else {})
    return fresh


def result(
    spec: SilverSpec,
    commit: Commit | None,
    topics: Mapping[str, CommittedTopic],
    before: Folded | None,
    figures: Figures,
    started: float,
) -> JobResult:
    """What a run tells: `commit` is None where nothing was new; `started` is of time.monotonic()."""
    by_op = dict(fresh(topics, before)) if commit else {}
    ranges = {}
    for name, state in topics.items() if commit else ():
        known = before.topics.get(name) if before else None
        start = known.positions if known and known.epoch == state.epoch else {}
        ranges[name] = {p: (start.get(p, 0), end) for p, end in state.positions.items()}
    shown = ("inserted", "updated", "deleted")
    return JobResult(
        job="silver",
        table=spec.table,
        version=commit.version if commit else None,
        rows_read=sum(by_op.values()),
        rows_inserted=figures.get("inserted", 0),
        rows_updated=figures.get("updated", 0),
        rows_deleted=figures.get("deleted", 0),
        by_op=by_op,
        ranges=ranges,
        seconds=round(time.monotonic() - started, 3),
        detail={k: v for k, v in figures.items() if k not in shown},
    )
