"""Silver: the current state of one table, folded from what bronze has committed and silver has not.

    bronze at one version ─▶ new rows ─▶ typed changes ─▶ one change per key ─▶ MERGE, guarded by position
                                              └─▶ quarantine, written first

The result does not depend on how the events were cut, repeated or shuffled: positions order them (spark.events.positions),
the MERGE applies a change only above the row's own position, and an event at or below what silver has already folded
in its partition (spark.silver.keyed_batch) makes its key be folded again from the whole of bronze, so that a row deleted since
cannot
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

from spark.errors import StatementStopError
from spark.silver import keyed_batch, keyless_tables, row_completion, silver_table, spark_merge, table_generation
from spark.silver.schema_evolution import align_columns, at_birth, record_birth
from spark.specs import JobResult, SilverSpec
from spark.table import spark_plans
from spark.table.commit_metadata import CommittedTopic, Folded, fold, silver_metadata
from spark.table.delta_table import Commit, table_of
from spark.table.spark_failures import run_again, translate_stops
from spark.table.write_lease import lend_to_spark

Figures = dict[str, int]
Run = TypeVar("Run", bound=keyed_batch.SilverRun)


def run(session: SparkSession, spec: SilverSpec) -> JobResult:
    """Bring the table up to what bronze has committed."""
    with lend_to_spark(spec.path):
        return run_again(lambda: _run(session, spec))


def _run(session: SparkSession, spec: SilverSpec) -> JobResult:
    started = time.monotonic()
    committed = table_of(spec.bronze_path).fold(fold, up_to=spec.folded_limit)
    topics = committed.of_table(spec.table)
    before = table_of(spec.path).silver_folded()
    spec = at_birth(spec) if before is None else align_columns(session, spec, after=before.highest)
    silver_table.check_names(spec)
    if not has_news(topics, before):
        return result(spec, None, topics, before, {}, started)
    records = sum(fresh(topics, before).values())
    spark_plans.suit(session, events=records, rows=spark_plans.rows_at_most(topics.values()))
    if before is not None:
        silver_table.mark_deletes(session, spec)
    silver_run = keyed_batch.SilverRun(session, spec, committed, before, uuid.uuid4().hex)
    if spec.keys:
        commit, figures = _fold(silver_run, records)
    else:
        commit, figures = (keyless_tables.apply_multiset if spec.multiset else keyless_tables.append_rows)(silver_run)
    if before is None:
        record_birth(session, spec)
    silver_table.tune(session, spec, commit)
    return result(spec, commit, topics, before, figures, started)


def _fold(silver_run: keyed_batch.SilverRun, records: int) -> tuple[Commit, Figures]:
    if (
        silver_run.before is None
        and records > keyed_batch.LOCAL_UP_TO
        and not (silver_run.first_floor or silver_run.spec.renewed)
    ):
        try:
            with translate_stops(keyed_batch.NOT_PLAIN):
                return _commit(silver_run, keyed_batch.read_plain_batch(silver_run), None)
        except StatementStopError:
            pass  # nothing is committed: the rows are held below, and looked at
    with newest_batch(silver_run, records) as (silver_run, newest, truncated):
        return _commit(silver_run, newest, truncated)


@contextmanager
def newest_batch(silver_run: Run, records: int) -> Iterator[tuple[Run, keyed_batch.Newest, str | None]]:
    """The newest change per key, what it goes into, and the position of the newest TRUNCATE, or of what works as one."""
    with keyed_batch.newest(silver_run, keyed_batch.is_late(silver_run.before), records) as newest:
        truncated = keyed_batch.position_of_truncate(silver_run, newest.facts.truncated)
        begun = table_generation.generation_start(
            silver_run.events, silver_run.spec, silver_run.before.truncated if silver_run.before else None
        )
        begun = max(filter(None, (begun, silver_run.first_floor)), default=None)
        if begun is not None and begun > (truncated or ""):
            # The full snapshot of a table made anew works as a TRUNCATE right before it, whatever the table does about those.
            mode = "soft" if silver_table.keeps_deleted_rows(silver_run.spec) else "apply"
            renewed = replace(silver_run, spec=replace(silver_run.spec, truncate=mode))
            yield renewed, replace(newest, facts=replace(newest.facts, truncated=begun)), begun
        else:
            yield silver_run, newest, truncated


def _commit(silver_run: keyed_batch.SilverRun, newest: keyed_batch.Newest, truncated: str | None) -> tuple[Commit, Figures]:
    session, spec, before = silver_run.session, silver_run.spec, silver_run.before
    source, quarantined = row_completion.complete_changes(silver_run, newest, truncated)
    figures = {"late_events": newest.facts.late_events, "refolded_keys": newest.facts.late_keys}
    figures |= {"carried_keys": newest.facts.parts, "quarantined": quarantined}
    done = silver_run.fold_state(truncated=truncated, quarantined=quarantined)
    metadata = silver_metadata(silver_run.operation_id, done, figures)
    figures["positions_remembered"] = keyed_batch.position_count(done)
    if before is None:
        rows = spark_merge.rows_made(spec, source)
        writer = rows.write.format("delta").mode("error").options(**silver_table.table_properties(spec))
        writer.option("userMetadata", metadata).save(spec.path)
        commit = table_of(spec.path).find_commit(silver_run.operation_id)
        return commit, {**figures, "inserted": commit.count("numOutputRows")}
    newer = truncated if truncated != before.truncated else None
    commit = spark_merge.execute(session, spec, source, metadata, silver_run.operation_id, truncated=newer)
    names = {"inserted": "Inserted", "updated": "Updated", "deleted": "Deleted"}
    return commit, {**figures, **{k: commit.count(f"numTargetRows{v}") for k, v in names.items()}}


def has_news(topics: Mapping[str, CommittedTopic], before: Folded | None) -> bool:
    """Whether bronze holds of the table's topics what silver has not folded."""
    if before is None:
        return bool(topics)
    return any(
        (folded := before.topics.get(name)) is None
        or state.epoch > folded.epoch
        or any(position > folded.positions.get(p, 0) for p, position in state.positions.items())
        for name, state in topics.items()
    )


def fresh(topics: Mapping[str, CommittedTopic], before: Folded | None) -> Counter[str]:
    """Records by op that bronze has beyond what silver had folded."""
    fresh: Counter[str] = Counter()
    for name, state in topics.items():
        folded = before.topics.get(name) if before else None
        fresh += Counter(state.by_op) - Counter(folded.by_op if folded and folded.epoch == state.epoch else {})
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
        folded = before.topics.get(name) if before else None
        start = folded.positions if folded and folded.epoch == state.epoch else {}
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
