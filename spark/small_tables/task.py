"""One small table: what of bronze it has not folded becomes one commit of it, or is left to Spark with nothing done.

log ─▶ what is folded, ledger ─▶ new records ─▶ typed changes ─▶ one per key ─▶ MERGE, with the folded positions
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark.delta.commits import Committed, CommittedTopic, Folded, fold_silver, silver_metadata, surviving
from spark.delta.deletion_vectors import PROPERTY as PROPERTY_OF_VECTORS
from spark.delta.delta_rs import open_delta
from spark.delta.lease import lend_to_task
from spark.delta.local_log import newest_commits
from spark.delta.log import Commit
from spark.envelopes.arrow_rows import keep_rows
from spark.errors import LeftToSparkError, SparkJobError, quantity
from spark.lake.place import is_local
from spark.large_tables import vector_merge
from spark.schema import generation
from spark.schema.column_ledger import DROPPED, PROPERTY, ColumnLedger
from spark.schema.evolution import at_birth, compare_columns
from spark.silver import job as silver_job
from spark.silver import late
from spark.silver import table as silver_table
from spark.silver.batch import SilverRun
from spark.silver.table import DELETION_VECTORS_FROM
from spark.small_tables import birth, inserted, merge
from spark.small_tables.decode import Field, decode_changes, fields_of
from spark.small_tables.newest import POSITION, newest_per_key
from spark.small_tables.rules import reason_against
from spark.small_tables.table_size import TableSize, size_of
from spark.small_tables.tail import BronzeTail
from spark.specs import JobResult, SilverSpec

MOST_EVENTS = 1_000_000
MOST_BATCH_BYTES = 512 << 20
_SLICE, _THREADS = 50_000, 2
"""Events that are parsed at once, and by how many threads."""
MOST_BYTES, MOST_ROWS = DELETION_VECTORS_FROM, 2_000_000
"""A table with more of either gets deletion vectors (spark.large_tables): to write its rows anew would cost a second or more."""
MOST_BYTES_HELD = 16 << 20
"""Of a table whose files a task itself writes anew: it holds their rows."""
MOST_BYTES_OF_LARGE = 4 << 30
"""A task looks at all keys of a table: of a larger one they are Spark's to look at."""
KEY_TYPES = frozenset({"boolean", "smallint", "int", "bigint", "decimal", "date", "timestamp", "timestamp_ntz", "string"})
_FIRST_LOOK = 20
_FIGURES = {"late_events": 0, "refolded_keys": 0, "carried_keys": 0, "quarantined": 0}


@dataclass(frozen=True)
class SmallTable:
    """A table, and what bronze has committed of its topics; `held_twice`: bronze has rows of them in two copies."""

    spec: SilverSpec
    committed: Committed
    held_twice: bool = False


def look(path: str) -> Folded | None:
    """What the table has folded; None where there is none.

    Raises:
        LeftToSparkError: its log does not tell that here.
    """
    commits = newest_commits(path, _FIRST_LOOK)
    folded = fold_silver(surviving(commits)) if commits else None
    if commits and folded is None:
        raise LeftToSparkError("no commit of ours is among the newest of the table")
    return folded


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
        folded = look(table.spec.path)
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
    started = time.monotonic()
    if reason := reason_against(table.spec):
        raise LeftToSparkError(reason)
    before = look(table.spec.path)
    delta, spec = _open(table.spec, before)
    work = SilverRun(None, spec, table.committed, before, uuid.uuid4().hex)  # type: ignore[arg-type]
    topics = table.committed.of_table(spec.table)
    if not silver_job.has_news(topics, before):
        return silver_job.result(spec, None, topics, before, {}, started)
    changes, fields = (newest_changes if spec.keys else new_rows)(table, work, tail)
    version, counts = _commit(work, delta, changes, fields)
    return silver_job.result(spec, Commit(version, "MERGE", None, {}), topics, before, {**_FIGURES, **counts}, started)


def newest_changes(table: SmallTable, work: SilverRun, tail: BronzeTail) -> tuple[pa.Table, list[Field]]:
    """What is new of the table, one change per key, and its columns; `work.spec` has the columns of the table.

    Raises:
        LeftToSparkError: Spark has to look at it.
    """
    records, fields = _batch(table, work, tail)
    return newest_per_key(_decode(records, work.spec, fields), work.spec.keys), fields


def new_rows(table: SmallTable, work: SilverRun, tail: BronzeTail) -> tuple[pa.Table, list[Field]]:
    """The new rows of a table without a key, and its columns.

    Raises:
        LeftToSparkError: Spark has to look at it.
    """
    records, fields = _batch(table, work, tail)
    inserted.refuse_all_but_inserts(records, table.committed.of_table(work.spec.table), work.before)
    return _decode(records, work.spec, fields), fields


def _batch(table: SmallTable, work: SilverRun, tail: BronzeTail) -> tuple[pa.Table, list[Field]]:
    fields = fields_of(work.spec)
    if table.held_twice:
        raise LeftToSparkError("rows of bronze are held twice")
    refuse_rules(work, fields)
    records = _new_records(tail.of_table(work.spec.table), table.committed.of_table(work.spec.table), work.before)
    if records.nbytes > MOST_BATCH_BYTES:
        raise LeftToSparkError(f"the events have {records.nbytes >> 20} MiB")
    return records, fields


def _decode(records: pa.Table, spec: SilverSpec, fields: list[Field]) -> pa.Table:
    """Two slices at a time: Arrow parses without Python's lock, and a batch of several is one table's alone, as a rule."""
    slices = [records.slice(at, _SLICE) for at in range(0, max(1, records.num_rows), _SLICE)]
    if len(slices) == 1:
        return decode_changes(slices[0], spec, fields)
    with ThreadPoolExecutor(_THREADS) as pool:
        return pa.concat_tables(list(pool.map(lambda each: decode_changes(each, spec, fields), slices)))


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
    if large and spec.portable:
        raise LeftToSparkError("the table is large, and is to have no deletion vectors")
    merge.refuse_unwritable(delta, vectors=large)
    settled = spec_of_table(delta, spec, before)
    if size.bytes > MOST_BYTES_OF_LARGE:
        raise LeftToSparkError(f"the table has {size.bytes >> 30} GiB")
    return delta, settled


def _is_large(delta: Any, size: TableSize) -> bool:
    """Whether it has deletion vectors, or is to get them."""
    has_vectors = delta.metadata().configuration.get(PROPERTY_OF_VECTORS) == "true"
    return has_vectors or size.bytes > MOST_BYTES or size.rows > MOST_ROWS


def _is_written_by_us(spec: SilverSpec, size: TableSize) -> bool:
    """Whether files with a changed row are written anew without delta-rs: it plans for as long as that takes. What it would write
    is not held whole. In an object store it puts a commit that was not answered again, as the next version."""
    return not is_local(spec.path) or size.bytes <= MOST_BYTES_HELD


def spec_of_table(delta: Any, spec: SilverSpec, before: Folded) -> SilverSpec:
    """The spec with the columns that the table has, which are those that the source has now.

    Raises:
        LeftToSparkError: they are not, or the table does not tell.
    """
    text = delta.metadata().configuration.get(PROPERTY)
    if text is None:
        raise LeftToSparkError("the table has no ledger of its columns")
    try:
        found = compare_columns(ColumnLedger.from_text(text), spec, after=before.highest)
    except SparkJobError as error:
        raise LeftToSparkError(str(error)) from error
    if not found.is_settled:
        raise LeftToSparkError("the source's columns have changed")
    silver_table.check_names(found.effective)
    return found.effective


def refuse_rules(work: SilverRun, fields: list[Field]) -> None:
    """Rules and states of a table that only Spark's fold knows.

    Raises:
        LeftToSparkError: naming the first of them.
    """
    spec, before = work.spec, work.before
    known, topics = before.topics if before else {}, work.committed.of_table(spec.table)
    kinds = {f.column.name: silver_table.type_name(f.column) for f in fields}
    events = sum(silver_job.fresh(topics, before).values())
    reasons = {
        "a column has, or had, another name in its events": any(
            c.formerly or c.since or c.event_field.startswith(DROPPED) for c in spec.columns
        )
        or len({f.name for f in fields}) < len(fields),
        "its columns have had other orders": len(spec.orders) > 1,
        "the source's table was made again": bool(spec.renewed or generation.drops(spec)),
        "records of it are in quarantine": bool(before and before.quarantined),
        "another epoch begins": work.first_floor is not None
        or any(name in known and state.epoch > known[name].epoch for name, state in topics.items()),
        "a column of the key is of a type that Spark compares": not {kinds[k] for k in spec.keys} <= KEY_TYPES,
        f"{quantity(events, 'event')} to be read": events > MOST_EVENTS,
    }
    for reason, holds in reasons.items():
        if holds:
            raise LeftToSparkError(reason)


def _new_records(records: pa.Table, topics: Mapping[str, CommittedTopic], before: Folded | None) -> pa.Table:
    """Those that silver has not folded.

    Raises:
        LeftToSparkError: one of them comes late, or from below a TRUNCATE.
    """
    found = []
    for topic, state in topics.items():
        known = before.topics.get(topic) if before else None
        for partition, end in state.positions.items():
            start = known.positions.get(partition, 0) if known else 0
            own = pc.and_(pc.equal(records["topic"], topic), pc.equal(records["partition"], partition))
            new = pc.and_(pc.greater_equal(records["offset"], start), pc.less(records["offset"], end))
            part = keep_rows(records, pc.and_(own, new))
            highest = known.max_position.get(partition) if known else None
            limits = [highest, *((before.grown, before.truncated) if before else ())]
            limit = max(filter(None, limits), default="")
            if pc.any(pc.less_equal(part["position"], limit)).as_py():
                raise LeftToSparkError("an event comes late")
            found.append(part)
    return pa.concat_tables(found) if found else records.slice(0, 0)


def _commit(work: SilverRun, delta: Any, changes: pa.Table, fields: list[Field]) -> tuple[int, merge.Counts]:
    spec, before = work.spec, work.before
    truncated, snapshot = (before.truncated, before.snapshot) if before else (None, None)
    done = work.fold_state(truncated=truncated, quarantined=0, snapshot=snapshot)
    rows = changes.cast(birth.lake_schema(fields))
    metadata = silver_metadata(work.operation_id, done, _FIGURES)
    if delta is None:
        rows = rows.filter(pc.not_equal(rows["_cdc_op"], "d"))
        birth.create_table(spec, rows, metadata)
        version, counts = 0, {"inserted": rows.num_rows}
    elif not spec.keys:
        found = vector_merge.LargeTableChanges(rows, newer=True, vectors=False)
        version, counts = vector_merge.merge_changes(delta, spec, found, metadata, work.operation_id)
    elif (large := _is_large(delta, size := size_of(delta))) or _is_written_by_us(spec, size):
        newer = before is None or pc.all(pc.greater(rows[POSITION], before.highest), min_count=0).as_py()
        found = vector_merge.LargeTableChanges(rows, newer, vectors=large)
        version, counts = vector_merge.merge_changes(delta, spec, found, metadata, work.operation_id)
    else:
        version, counts = merge.merge_changes(delta, spec, rows, metadata, work.operation_id)
        merge.compact(delta)
    return version, {**counts, "positions_remembered": late.position_count(done)}
