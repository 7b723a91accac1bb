"""One small table inside a task: what of bronze it has not folded becomes one commit of it, or is left to Spark with
nothing done.

The contract is that of spark.silver.fold_job, commit by commit, so that a table may change sides at any commit. A
table that is not there yet gets its columns, properties, ledger and first rows as version 0; a table without a key
takes inserts only. Parts of rows are completed from the batch and from the table's files, and a key with a late event
is folded again from all of bronze (spark.silver.row_fold). Spark gets a value that does not fit, what belongs into
quarantine, and a table that is large or has other rules.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark.bronze.change_log import BronzeTail, read_all_records
from spark.errors import LeftToSparkError, SparkJobError, TableStopError, quantity
from spark.events.arrow_records import keep_rows, leave_any, leave_first, sort_rows
from spark.events.positions import NUMBER_WIDTH
from spark.silver import fold_job as silver_job
from spark.silver import keyed_batch, quarantine_table, row_fold, silver_table, table_generation, task_merge
from spark.silver.arrow_changes import Field, decode_changes, fields_of
from spark.silver.column_ledger import DROPPED, PROPERTY, ColumnLedger
from spark.silver.keyed_batch import SilverRun
from spark.silver.row_fold import POSITION, FoldPlan
from spark.silver.schema_evolution import at_birth, compare_columns, first_ledger
from spark.silver.silver_table import DELETION_VECTORS_FROM
from spark.silver.small_tables import reason_against
from spark.silver.task_merge import TableSize, size_of
from spark.silver.typed_changes import key_slots, slot
from spark.specs import DELETED, META, JobResult, SilverSpec
from spark.table.commit_metadata import Committed, CommittedTopic, Folded, fold_silver, silver_metadata
from spark.table.data_files import PROPERTY as PROPERTY_OF_VECTORS
from spark.table.delta_rs import open_delta
from spark.table.delta_table import Commit, table_of
from spark.table.write_lease import lend_to_task

_OFFSET_PART = 1 + NUMBER_WIDTH


def refuse_all_but_inserts(records: pa.Table, topics: Mapping[str, CommittedTopic], before: Folded | None) -> None:
    """The records that silver has not folded, of all partitions.

    An event's place in the source's log tells whether it was delivered before. Only a batch whose places rise,
    partition by partition, from above what is folded is taken: then none was. The rows are what
    spark.silver.keyless_tables makes of such a batch.

    Raises:
        LeftToSparkError: the table is not there yet, or one of them is no insert, or may have been delivered before.
    """
    if before is None:
        raise LeftToSparkError("a table without a key begins")
    leave_any(pc.invert(pc.equal(records["op"], "c").fill_null(False)), "a record of a table without a key that is no insert")
    for topic, state in topics.items():
        state_before = before.topics.get(topic)
        for partition in state.positions:
            own = pc.and_(pc.equal(records["topic"], topic), pc.equal(records["partition"], partition))
            folded = state_before.max_position.get(partition, "") if state_before else ""
            _refuse_replays(sort_rows(keep_rows(records, own), ["offset"])["position"], max(folded, before.snapshot or ""))


def _refuse_replays(positions: pa.ChunkedArray, folded: str) -> None:
    leave_any(pc.is_null(positions), "a record without a position")
    places = pc.utf8_slice_codeunits(positions, 0, -_OFFSET_PART).combine_chunks()
    if not len(places):
        return
    earlier = pa.concat_arrays([pa.array([folded[:-_OFFSET_PART]], places.type), places[:-1]])
    leave_any(pc.less(places, earlier), "a record that may have been delivered before")
    leave_any(pc.equal(places[:1], folded[:-_OFFSET_PART]), "a record that may have been delivered before")


_META = (
    pa.field("_cdc_position", pa.string()),
    pa.field("_cdc_op", pa.string()),
    pa.field("_cdc_source_ts", pa.timestamp("us", "UTC")),
    pa.field("_cdc_tx_id", pa.string()),
)


def _name_columns(rows: pa.Table, spec: SilverSpec, fields: Sequence[Field]) -> pa.Table:
    """As silver_table.name_columns, with the source's types as comments: a table that keeps deleted rows says so of each."""
    own = [pa.field(f.column.name, f.form.lake, metadata={"comment": f.column.source_type}) for f in fields]
    schema = pa.schema([*own, *_META])
    rows = rows.select([*map(slot, range(len(fields))), *META]).rename_columns(schema.names).cast(schema)
    return rows.append_column(DELETED, pc.equal(rows["_cdc_op"], "d")) if spec.deletes == "soft" else rows


def create_table(spec: SilverSpec, rows: pa.Table, user_metadata: str) -> None:
    """The table as its version 0, or nothing.

    Raises:
        LeftToSparkError: somebody else has made one meanwhile.
    """
    properties = {**silver_table.table_properties(spec), PROPERTY: first_ledger(spec).to_text()}
    table_of(spec.path).create(rows, properties, user_metadata, bounded=silver_table.columns_with_bounds(spec))


MOST_EVENTS = 1_000_000
MOST_BATCH_BYTES = 512 << 20
_SLICE, _THREADS = 50_000, 2
"""Events that are parsed at once, and by how many threads."""
MOST_BYTES, MOST_ROWS = DELETION_VECTORS_FROM, 2_000_000
"""A table with more of either gets deletion vectors (task_merge): to write its rows anew would cost a second or more."""
MOST_BYTES_OF_LARGE = 4 << 30
"""A task looks at all keys of a table: of a larger one they are Spark's to look at."""
KEY_TYPES = frozenset({"boolean", "smallint", "int", "bigint", "decimal", "date", "timestamp", "timestamp_ntz", "string"})
_FIGURES = {"late_events": 0, "refolded_keys": 0, "carried_keys": 0, "quarantined": 0}


@dataclass(frozen=True)
class SmallTable:
    """A table, and what bronze has committed of its topics."""

    spec: SilverSpec
    committed: Committed


def read_folded(path: str) -> Folded | None:
    """What the table has folded; None where there is none.

    Raises:
        LeftToSparkError: its log does not tell that here.
    """
    commits: list[tuple[int, str | None]] = []
    for commits in table_of(path).looks():
        folded = fold_silver(commits)
        if folded is not None:
            return folded
    if commits:
        raise LeftToSparkError("no commit of the table is ours")
    return None


def fold_tables(tables: Sequence[SmallTable]) -> Iterator[tuple[JobResult | None, str]]:
    """Each table's result, or why it is left to Spark; the records are read once for all that have folded the same."""
    tails: dict[int, BronzeTail] = {}
    folded = [_bronze_version(table) for table in tables]
    for table, after in zip(tables, folded, strict=True):
        if after not in tails:
            same = [other.spec.table for other, version in zip(tables, folded, strict=True) if version == after]
            tails[after] = BronzeTail(table.spec.bronze_path, same, after=after, version=table.committed.version)
        try:
            yield fold_table(table, tails[after]), ""
        except LeftToSparkError as reason:
            yield None, str(reason)
        except Exception as error:  # noqa: BLE001 - one table's failure is its own: Spark's job does it, or says what is wrong
            yield None, f"{type(error).__name__}: {str(error)[:500]}"


def _bronze_version(table: SmallTable) -> int:
    """Of bronze; -1 where that is nothing, or is not told here."""
    try:
        folded = read_folded(table.spec.path)
    except SparkJobError:
        return -1
    return folded.bronze_version if folded else -1


def fold_table(table: SmallTable, tail: BronzeTail) -> JobResult:
    """Bring the table up to what bronze has committed.

    Raises:
        LeftToSparkError: it has, or the batch holds, what Spark has to look at; nothing is committed.
    """
    with lend_to_task(table.spec.path):
        return _fold(table, tail)


def _fold(table: SmallTable, tail: BronzeTail) -> JobResult:
    """One commit of what the table has not folded:

    log ─▶ what is folded, ledger ─▶ new records ─▶ typed changes ─▶ one per key ─▶ MERGE, with the folded positions
    """
    started = time.monotonic()
    if reason := reason_against(table.spec):
        raise LeftToSparkError(reason)
    before = read_folded(table.spec.path)
    delta, spec = _open(table.spec, before)
    silver_run = SilverRun(None, spec, table.committed, before, uuid.uuid4().hex)  # type: ignore[arg-type]
    topics = table.committed.of_table(spec.table)
    if not silver_job.has_news(topics, before):
        return silver_job.result(spec, None, topics, before, {}, started)
    changes = newest_changes(table, silver_run, tail, delta) if spec.keys else new_rows(table, silver_run, tail)
    version, counts = _commit(silver_run, delta, changes)
    commit = Commit(version, "MERGE", None, {}, datetime.now(timezone.utc))
    return silver_job.result(spec, commit, topics, before, counts, started)


@dataclass(frozen=True)
class ChangedRows:
    """Whole rows in the table's columns, with META, and the batch's figures.

    `forced` are the numbers of those that replace the table's row whatever its position: of keys that are folded again.
    `truncated` is the position of the newest TRUNCATE that the table obeys.
    """

    rows: pa.Table
    forced: np.ndarray
    truncated: str | None
    figures: Mapping[str, int]


@dataclass(frozen=True)
class NewRecords:
    """The records that silver has not folded, in order and late ones, without TRUNCATEs."""

    records: pa.Table
    late: pa.Table
    truncated: str | None
    fields: list[Field]


def newest_changes(table: SmallTable, silver_run: SilverRun, tail: BronzeTail, delta: Any) -> ChangedRows:
    """What is new of the table, one change per key; `silver_run.spec` has the columns of the table, and `delta` its rows.

    Raises:
        LeftToSparkError: Spark has to look at it.
    """
    batch, spec = _batch(table, silver_run, tail), silver_run.spec
    limit = batch.truncated if spec.truncate == "apply" else None
    changes = row_fold.above(_decode(batch.records, spec, batch.fields), limit)
    late_keys = row_fold.newest_rows(_decode(batch.late, spec, batch.fields), key_slots(spec))
    again = _fold_again(batch, silver_run, late_keys, limit) if late_keys.num_rows else None
    changes = changes if again is None else task_merge.without_keys(changes, late_keys, key_slots(spec))
    rows, carried = _fold_changes(changes, spec, lambda parts: task_merge.rows_as_events(delta, spec, parts, limit))
    figures, forced = {**_FIGURES, "carried_keys": carried}, np.empty(0, np.int64)
    if again is not None:
        figures |= {"late_events": batch.late.num_rows, "refolded_keys": late_keys.num_rows}
        forced = rows.num_rows + np.arange(again.num_rows)
        rows = pa.concat_tables([rows, again])
    return ChangedRows(_name_columns(rows, spec, batch.fields), forced, batch.truncated, figures)


def _fold_again(batch: NewRecords, silver_run: SilverRun, late_keys: pa.Table, limit: str | None) -> pa.Table:
    """The rows of these keys, from everything that bronze has of them; a delete, of a key without a row."""
    spec, committed = silver_run.spec, silver_run.committed
    count = sum(state.records for state in committed.of_table(spec.table).values())
    reasons = {
        f"an event comes late, and all {quantity(count, 'event')} are to be read": count > MOST_EVENTS,
        "an event comes late, and records of the table were in quarantine": silver_run.before and silver_run.before.quarantined,
    }
    leave_first(reasons)
    keys = key_slots(spec)
    records = read_all_records(spec.bronze_path, spec.table, committed.version)
    everything = _decode(keep_rows(records, pc.invert(pc.equal(records["op"], "t").fill_null(False))), spec, batch.fields)
    own = row_fold.above(task_merge.of_keys(everything, late_keys, keys), limit)
    folded, _ = _fold_changes(own, spec, lambda parts: parts.slice(0, 0))
    if spec.deletes == "soft":
        return folded
    gone = task_merge.without_keys(late_keys, folded, keys)
    nothing = {name: pa.nulls(gone.num_rows, gone.schema.field(name).type) for name in gone.column_names if name not in keys}
    nothing |= {POSITION: pa.array([""] * gone.num_rows), "_cdc_op": pa.array(["d"] * gone.num_rows)}
    deletes = pa.table({name: nothing.get(name, gone[name]) for name in folded.column_names})
    return pa.concat_tables([folded, deletes.cast(folded.schema)])


def _fold_changes(changes: pa.Table, spec: SilverSpec, of_table: Callable[[pa.Table], pa.Table]) -> tuple[pa.Table, int]:
    """One whole row per key, and of how many keys the newest event was a part; `of_table` are events that say what the table has
    of the keys of some."""
    plan = FoldPlan.of(spec)
    names = [*map(slot, range(len(spec.columns))), *META]
    newest = row_fold.newest_rows(changes, plan.keys)
    are_parts = row_fold.are_parts(newest, plan)
    if not are_parts.any():
        return newest.select(names), 0
    parts = newest.filter(pa.array(are_parts))
    own = pa.concat_tables([task_merge.of_keys(changes, parts, plan.keys), of_table(parts)])
    judged = row_fold.mark_problems(own, plan)
    leave_any(pc.is_valid(judged["problem"]), "an event that lacks values which no event before it has")
    folded = row_fold.fold_per_key(judged, plan)
    return pa.concat_tables([newest.filter(pa.array(~are_parts)).select(names), folded.select(names)]), parts.num_rows


def new_rows(table: SmallTable, silver_run: SilverRun, tail: BronzeTail) -> ChangedRows:
    """The new rows of a table without a key.

    Raises:
        LeftToSparkError: Spark has to look at it.
    """
    batch, before = _batch(table, silver_run, tail), silver_run.before
    truncated = batch.truncated != (before.truncated if before else None)
    leave_first({"an event comes late": batch.late.num_rows, "a TRUNCATE of a table without a key": truncated})
    refuse_all_but_inserts(batch.records, table.committed.of_table(silver_run.spec.table), before)
    rows = _name_columns(_decode(batch.records, silver_run.spec, batch.fields), silver_run.spec, batch.fields)
    return ChangedRows(rows, np.empty(0, np.int64), batch.truncated, _FIGURES)


def _batch(table: SmallTable, silver_run: SilverRun, tail: BronzeTail) -> NewRecords:
    spec, before = silver_run.spec, silver_run.before
    fields = fields_of(spec)
    refuse_rules(silver_run, fields)
    records, is_late = _new_records(tail.of_table(spec.table), table.committed.of_table(spec.table), before)
    leave_first({f"the events have {records.nbytes >> 20} MiB": records.nbytes > MOST_BATCH_BYTES})
    is_truncate = pc.equal(records["op"], "t").fill_null(False)
    leave_any(pc.and_(is_truncate, is_late), "a TRUNCATE that comes late")
    newest = pc.max(records.filter(is_truncate)["position"]).as_py()
    try:
        truncated = keyed_batch.position_of_truncate(silver_run, newest)
    except TableStopError as error:
        raise LeftToSparkError(str(error)) from error
    others = pc.invert(is_truncate)
    in_order, late = pc.and_(others, pc.invert(is_late)), pc.and_(others, is_late)
    return NewRecords(keep_rows(records, in_order), records.filter(late), truncated, fields)


def _decode(records: pa.Table, spec: SilverSpec, fields: list[Field]) -> pa.Table:
    """Two slices at a time: Arrow parses without Python's lock, and a batch of several is one table's alone, as a rule."""
    slices = [records.slice(at, _SLICE) for at in range(0, max(1, records.num_rows), _SLICE)]
    if len(slices) == 1:
        return decode_changes(slices[0], spec, fields)
    with ThreadPoolExecutor(_THREADS) as pool:
        return pa.concat_tables(list(pool.map(lambda field: decode_changes(field, spec, fields), slices)))


def _open(spec: SilverSpec, before: Folded | None) -> tuple[Any, SilverSpec]:
    """The table (None: there is none), and the spec with the columns that it has.

    Raises:
        LeftToSparkError: it is none that delta-rs writes, or is to get other columns first.
    """
    if before is None:
        silver_table.check_names(spec)
        return None, at_birth(spec)
    delta = open_delta(spec.path)
    size = size_of(delta)
    large = _is_large(delta, size)
    task_merge.refuse_unwritable(delta, vectors=large)
    marked = DELETED in [column.name for column in delta.schema().fields]
    reasons = {
        "the table is large, and is to have no deletion vectors": large and spec.portable,
        "the table gets its mark of deleted rows": spec.deletes == "soft" and not marked,
        f"the table has {size.bytes >> 30} GiB": size.bytes > MOST_BYTES_OF_LARGE,
    }
    leave_first(reasons)
    return delta, spec_of_table(delta, spec, before)


def _is_large(delta: Any, size: TableSize) -> bool:
    """Whether it has deletion vectors, or is to get them."""
    has_vectors = delta.metadata().configuration.get(PROPERTY_OF_VECTORS) == "true"
    return has_vectors or size.bytes > MOST_BYTES or size.rows > MOST_ROWS


def spec_of_table(delta: Any, spec: SilverSpec, before: Folded) -> SilverSpec:
    """The spec with the columns that the table has, which are those that the source has now.

    Raises:
        LeftToSparkError: they are not, or the table does not tell.
    """
    text = delta.metadata().configuration.get(PROPERTY)
    if text is None:
        raise LeftToSparkError("the table has no ledger of its columns")
    try:
        comparison = compare_columns(ColumnLedger.from_text(text), spec, after=before.highest)
    except SparkJobError as error:
        raise LeftToSparkError(str(error)) from error
    if not comparison.is_settled:
        raise LeftToSparkError("the source's columns have changed")
    silver_table.check_names(comparison.effective)
    return comparison.effective


def refuse_rules(silver_run: SilverRun, fields: list[Field]) -> None:
    """Rules and states of a table that only Spark's fold knows.

    Raises:
        LeftToSparkError: naming the first of them.
    """
    spec, before = silver_run.spec, silver_run.before
    topics_before, topics = before.topics if before else {}, silver_run.committed.of_table(spec.table)
    kinds = {f.column.name: silver_table.type_name(f.column) for f in fields}
    events = sum(silver_job.fresh(topics, before).values())
    reasons = {
        "a column has, or had, another name in its events": any(
            c.formerly or c.since or c.event_field.startswith(DROPPED) for c in spec.columns
        )
        or len({f.name for f in fields}) < len(fields),
        "its columns have had other orders": len(spec.orders) > 1,
        "the source's table was made again": not table_generation.is_obeyed(spec, before.truncated if before else None),
        "a record in quarantine leaves a row in doubt": before and before.quarantined and not quarantine_table.is_settled(spec),
        "another epoch begins": silver_run.first_floor is not None
        or any(name in topics_before and state.epoch > topics_before[name].epoch for name, state in topics.items()),
        "a column of the key is of a type that Spark compares": not {kinds[k] for k in spec.keys} <= KEY_TYPES,
        f"{quantity(events, 'event')} to be read": events > MOST_EVENTS,
    }
    leave_first(reasons)


def _new_records(
    records: pa.Table, topics: Mapping[str, CommittedTopic], before: Folded | None
) -> tuple[pa.Table, pa.ChunkedArray]:
    """Those that silver has not folded, and which of them are late."""
    new_records, is_late = [records.slice(0, 0)], [pa.array([], pa.bool_())]
    for topic, state in topics.items():
        state_before = before.topics.get(topic) if before else None
        for partition, end in state.positions.items():
            start = state_before.positions.get(partition, 0) if state_before else 0
            own = pc.and_(pc.equal(records["topic"], topic), pc.equal(records["partition"], partition))
            new = pc.and_(pc.greater_equal(records["offset"], start), pc.less(records["offset"], end))
            partition_records = keep_rows(records, pc.and_(own, new))
            late = pc.less_equal(partition_records["position"], keyed_batch.late_limit(before, topic, partition))
            new_records.append(partition_records)
            is_late += late.fill_null(False).chunks
    return pa.concat_tables(new_records), pa.chunked_array(is_late)


def _commit(silver_run: SilverRun, delta: Any, changes: ChangedRows) -> tuple[int, task_merge.RowCounts]:
    spec, before, rows = silver_run.spec, silver_run.before, changes.rows
    truncated = changes.truncated if before and changes.truncated != before.truncated else None
    done = silver_run.fold_state(truncated=changes.truncated, quarantined=0, snapshot=before.snapshot if before else None)
    metadata = silver_metadata(silver_run.operation_id, done, changes.figures)
    if delta is None:
        rows = rows if spec.deletes == "soft" else rows.filter(pc.not_equal(rows["_cdc_op"], "d"))
        create_table(spec, rows, metadata)
        version, counts = 0, {"inserted": rows.num_rows}
    elif not spec.keys:
        merged_changes = task_merge.LargeTableChanges(rows, newer=True, vectors=False)
        version, counts = task_merge.merge_by_vectors(delta, spec, merged_changes, metadata, silver_run.operation_id)
    else:
        newer = before is None or pc.all(pc.greater(rows[POSITION], before.highest), min_count=0).as_py()
        large = _is_large(delta, size_of(delta))
        merged_changes = task_merge.LargeTableChanges(rows, newer, vectors=large, forced=changes.forced, truncated=truncated)
        version, counts = task_merge.merge_by_vectors(delta, spec, merged_changes, metadata, silver_run.operation_id)
    return version, {**changes.figures, **counts, "positions_remembered": keyed_batch.position_count(done)}
