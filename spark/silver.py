"""Silver: the current state of one table, folded from what bronze has committed and silver has not.

    bronze at one version ─▶ new rows ─▶ typed changes ─▶ newest per key ─▶ MERGE, guarded by position

The result does not depend on how the events were cut, repeated or shuffled: positions order them (spark.positions),
the MERGE applies a change only above the row's own position, and an event at or below what silver has already folded
in its partition ("late": a replay) makes its key be folded again from the whole of bronze, so that a row deleted
since cannot come back. The folded positions are in the commit that holds the rows: a job killed anywhere is simply
run again. Reading bronze at a fixed version keeps the MERGE's source the same in all its passes.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark import keyless, silver_table
from spark.bronze_slice import by_partition, new_events, table_events
from spark.changes import META, decoded, key_slots, record_error, slot
from spark.commits import Committed, Folded, TopicState, fold, silver_metadata
from spark.conflicts import retried
from spark.delta_log import Commit, commit_of, folded_history, silver_folded
from spark.failures import SPARK_FAILURES
from spark.identifiers import quoted, table_at
from spark.schema.evolution import aligned, at_birth, record_birth
from spark.session import USER_METADATA
from spark.specs import JobResult, SilverSpec

LOCAL_UP_TO = 20_000
Figures = dict[str, int]


def run(session: SparkSession, spec: SilverSpec) -> JobResult:
    """Bring the table up to what bronze has committed."""

    def job() -> JobResult:
        try:
            return _run(session, spec)
        except SPARK_FAILURES as error:
            unfit = record_error(error, spec)
            if unfit is None:
                raise
            raise unfit from error

    return retried(job)


def _run(session: SparkSession, spec: SilverSpec) -> JobResult:
    started = time.monotonic()
    committed = folded_history(session, spec.bronze_path, fold, up_to=spec.folded_limit)
    topics = committed.of_table(spec.table)
    before = silver_folded(session, spec.path)
    spec = at_birth(spec) if before is None else aligned(session, spec, after=_highest(before))
    silver_table.check_names(spec)
    if not _news(topics, before):
        return _result(spec, None, topics, before, {}, started)
    folded = Folded(bronze_version=committed.version, topics=topics, snapshot=before.snapshot if before else None)
    operation_id = uuid.uuid4().hex
    if not spec.keys:
        commit, figures = keyless.append(session, spec, committed, before, folded, operation_id)
    elif before is None:
        commit, figures = _first_load(session, spec, committed, folded, operation_id)
    else:
        commit, figures = _merge(session, spec, committed, before, folded, operation_id)
    if before is None:
        record_birth(session, spec)
    silver_table.tune(session, spec, commit.version)
    return _result(spec, commit, topics, before, figures, started)


def _highest(before: Folded) -> str:
    """The highest position that silver has folded."""
    return max((p for state in before.topics.values() for p in state.max_position.values()), default="")


def _news(topics: Mapping[str, TopicState], before: Folded | None) -> bool:
    if before is None:
        return bool(topics)
    return any(
        (known := before.topics.get(name)) is None
        or state.epoch > known.epoch
        or any(position > known.positions.get(p, 0) for p, position in state.positions.items())
        for name, state in topics.items()
    )


def newest_per_key(changes: DataFrame, spec: SilverSpec, late: Expression) -> DataFrame:
    """One row per key: its event with the highest position; `late` tells whether any of its events was late."""
    keys = key_slots(spec)
    rest = [slot(i) for i in range(len(spec.columns)) if slot(i) not in keys]
    carried = [*rest, *META]
    newest = sf.max_by(sf.struct(*carried), sf.col("_cdc_position")).alias("newest")
    folded = changes.groupBy(*keys).agg(newest, sf.count_if(late).alias("late"))
    return folded.select(*keys, *[sf.col("newest").getField(name).alias(name) for name in carried], "late")


def _late(before: Folded | None) -> Expression:
    """Whether an event is at or below what silver has already folded in its partition."""
    if before is None:
        return sf.lit(False)
    highest = by_partition({topic: state.max_position for topic, state in before.topics.items()})
    return sf.coalesce(sf.col("_cdc_position") <= highest, sf.lit(False))


def _first_load(
    session: SparkSession, spec: SilverSpec, committed: Committed, folded: Folded, operation_id: str
) -> tuple[Commit, Figures]:
    changes = decoded(table_events(session, spec, committed.version), spec)
    state = newest_per_key(changes, spec, sf.lit(False)).where(sf.col("_cdc_op") != "d")
    writer = silver_table.named(state, spec).write.format("delta").mode("error").options(**silver_table.properties(spec))
    writer.option("userMetadata", silver_metadata(operation_id, folded, {})).save(spec.path)
    commit = commit_of(session, spec.path, operation_id)
    return commit, {"inserted": commit.count("numOutputRows")}


def _merge(
    session: SparkSession,
    spec: SilverSpec,
    committed: Committed,
    before: Folded,
    folded: Folded,
    operation_id: str,
) -> tuple[Commit, Figures]:
    changes = decoded(new_events(session, spec, committed, before), spec)
    newest = newest_per_key(changes, spec, _late(before))
    if _records(folded.topics, before) <= LOCAL_UP_TO:
        # MERGE reads its source twice; as a local relation the second reading costs nothing (3.5 s against 2.7 s).
        table = newest.toArrow()
        events, keys = _sum(table, "late"), table.filter(pc.field("late") > 0).num_rows
        batch, kept = session.createDataFrame(table) if table.num_rows else newest, None
    else:
        batch = kept = newest.persist()
        facts = batch.agg(sf.sum("late").alias("events"), sf.count_if(sf.col("late") > 0).alias("keys")).collect()[0]
        events, keys = int(facts.events or 0), int(facts.keys)
    try:
        source = batch
        if keys:
            again = _refolded(session, spec, committed, batch.where("late > 0"))
            source = batch.where("late = 0").unionByName(again)
        figures = {"late_events": events, "refolded_keys": keys}
        metadata = silver_metadata(operation_id, folded, figures)
        commit = _execute(session, spec, source.drop("late"), metadata, operation_id)
    finally:
        if kept is not None:
            kept.unpersist()
    names = {"inserted": "Inserted", "updated": "Updated", "deleted": "Deleted"}
    return commit, {**figures, **{k: commit.count(f"numTargetRows{v}") for k, v in names.items()}}


def _sum(table: pa.Table, column: str) -> int:
    return int(pc.sum(table.column(column)).as_py() or 0)


def _refolded(session: SparkSession, spec: SilverSpec, committed: Committed, late: DataFrame) -> DataFrame:
    """The keys of late events, folded from everything that bronze has of them."""
    keys = key_slots(spec)
    wanted = late.select(*[sf.col(k).alias(f"late_{k}") for k in keys])
    changes = decoded(table_events(session, spec, committed.version), spec)
    same = [sf.col(k).eqNullSafe(sf.col(f"late_{k}")) for k in keys]
    return newest_per_key(changes.join(sf.broadcast(wanted), same, "left_semi"), spec, sf.lit(False))


def _execute(session: SparkSession, spec: SilverSpec, source: DataFrame, metadata: str, operation_id: str) -> Commit:
    view = f"cdc_changes_{operation_id}"
    source.createOrReplaceTempView(view)
    session.conf.set(USER_METADATA, metadata)
    try:
        session.sql(merge_statement(spec, view)).collect()
    finally:
        session.conf.unset(USER_METADATA)
        session.catalog.dropTempView(view)
    return commit_of(session, spec.path, operation_id)


def merge_statement(spec: SilverSpec, view: str) -> str:
    """Delete, update, insert, each only above the row's own position. Key columns that may be NULL match null-safely."""
    targets = [(quoted(c.name), slot(i)) for i, c in enumerate(spec.columns)] + [(m, m) for m in META]
    by_name = {c.name: (slot(i), c) for i, c in enumerate(spec.columns)}
    same = " AND ".join(f"t.{quoted(k)} {'<=>' if by_name[k][1].nullable else '='} s.{by_name[k][0]}" for k in spec.keys)
    newer = "s._cdc_position > t._cdc_position"
    assignments = ", ".join(f"t.{name} = s.{value}" for name, value in targets)
    return (
        f"MERGE INTO {table_at(spec.path)} t USING {view} s ON {same} "
        f"WHEN MATCHED AND {newer} AND s._cdc_op = 'd' THEN DELETE "
        f"WHEN MATCHED AND {newer} THEN UPDATE SET {assignments} "
        f"WHEN NOT MATCHED AND s._cdc_op <> 'd' THEN "
        f"INSERT ({', '.join(n for n, _ in targets)}) VALUES ({', '.join(f's.{v}' for _, v in targets)})"
    )


def _records(topics: Mapping[str, TopicState], before: Folded | None) -> int:
    return sum(_fresh(topics, before).values())


def _fresh(topics: Mapping[str, TopicState], before: Folded | None) -> Counter[str]:
    """Records by op that bronze has beyond what silver had folded."""
    fresh: Counter[str] = Counter()
    for name, state in topics.items():
        known = before.topics.get(name) if before else None
        fresh += Counter(state.by_op) - Counter(known.by_op if known and known.epoch == state.epoch else {})
    return fresh


def _result(
    spec: SilverSpec,
    commit: Commit | None,
    topics: Mapping[str, TopicState],
    before: Folded | None,
    figures: Figures,
    started: float,
) -> JobResult:
    by_op = dict(_fresh(topics, before)) if commit else {}
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
