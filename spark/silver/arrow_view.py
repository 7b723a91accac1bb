"""A silver table as it will be once everything in bronze is folded, read by Arrow and written nowhere.

Silver's rows at one version, less those that have a newer change, and the newest change per key of what bronze holds
behind that version. Silver is opened first and bronze's log read then, so all that silver has folded is known of
bronze. What a task would leave to Spark is left here too (LeftToSparkError): there is no wrong row, but the reason.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark.bronze.change_log import BronzeTail
from spark.errors import LeftToSparkError
from spark.events.arrow_records import leave_first
from spark.silver import fold_job as silver_job
from spark.silver import silver_table
from spark.silver.keyed_batch import SilverRun
from spark.silver.row_fold import POSITION
from spark.silver.schema_evolution import at_birth
from spark.silver.small_table_fold import SmallTable, newest_changes, spec_of_table
from spark.silver.small_tables import reason_against
from spark.specs import SilverSpec
from spark.table.commit_metadata import Committed, Folded, fold_silver
from spark.table.delta_rs import is_delta, open_delta
from spark.table.delta_table import table_of
from spark.table.identifiers import double_quote
from spark.table.log_reader import LOG
from spark.table.table_folder import open_folder


class KeyRows:
    """The rows of a table by their key, of one column or more: no key is there twice, and none has a NULL.

    A key becomes a number, column by column: that of its first columns' values, and then of the next one's with it.
    """

    def __init__(self, rows: pa.Table, keys: Sequence[str]) -> None:
        self._keys = keys
        self._known: list[tuple[pa.Array, pa.Array]] = []
        numbers = None
        for values in self._columns(rows):
            distinct = pc.unique(values)
            joined = _join(numbers, pc.index_in(values, value_set=distinct), len(distinct))
            self._known.append((distinct, pc.unique(joined)))
            numbers = pc.index_in(joined, value_set=self._known[-1][1])

    def find(self, batch: pa.RecordBatch) -> pa.Array:
        """For each row of the batch the number of the row with its key (int32), or null."""
        numbers = None
        for values, (distinct, pairs) in zip(self._columns(batch), self._known, strict=True):
            joined = _join(numbers, pc.index_in(values, value_set=distinct), len(distinct))
            numbers = pc.index_in(joined, value_set=pairs)
        return numbers

    def _columns(self, rows: pa.Table | pa.RecordBatch) -> Iterator[pa.Array]:
        for key in self._keys:
            values = rows[key]
            yield values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _join(numbers: pa.Array | None, more: pa.Array, count: int) -> pa.Array:
    """One number for both: null where one of them is."""
    wide = more.cast(pa.int64())
    return wide if numbers is None else pc.add(pc.multiply(numbers.cast(pa.int64()), count), wide)


_UNREAD = frozenset({"typeWidening", "typeWidening-preview"})
"""Features of Delta that delta-rs 1.6.6 does not read."""
_SESSION = {"datafusion.execution.parquet.schema_force_view_types": "false"}


@dataclass(frozen=True)
class SilverVersion:
    """A silver table at one version: opened by delta-rs, and what that version has folded; both None where there is none yet."""

    table: Any
    folded: Folded | None

    @property
    def number(self) -> int | None:
        """The version, as Delta counts them."""
        return None if self.table is None else int(self.table.version())


def open_silver(path: str) -> SilverVersion:
    """The newest version.

    Raises:
        LeftToSparkError: it is not to be read here.
    """
    if not open_folder(path).has_files(LOG) or not is_delta(path):
        return SilverVersion(None, None)
    table = open_delta(path)
    version = table.version()
    for commits in table_of(path).looks(up_to=version):
        folded = fold_silver(commits)
        if folded is not None:
            return SilverVersion(table, folded)
    raise LeftToSparkError("no commit of ours is in the table's log")


@dataclass(frozen=True)
class TableNow:
    """Rows of silver and the changes that they lack: one per key, in silver's columns; None where silver lacks none.

    `bronze_version` is up to where the changes go. Those `forced` count whatever silver's row is, and rows of silver below
    `truncated` are gone.
    """

    silver: SilverVersion
    bronze_version: int
    schema: pa.Schema
    keys: tuple[str, ...] = ()
    changes: pa.Table | None = None
    forced: pa.Array | None = None
    truncated: str | None = None
    keeps_deleted: bool = False

    def reader(self, columns: Sequence[str] | None = None, condition: str = "") -> pa.RecordBatchReader:
        """The rows, of these columns only, batch by batch. `condition` is SQL that spares reading rows of silver of other keys;
        it does not select."""
        schema = self.schema if columns is None else pa.schema([self.schema.field(name) for name in columns])
        batches = self._batches(schema.names, condition)
        return pa.RecordBatchReader.from_batches(schema, (batch for batch in batches if batch.num_rows))

    def _batches(self, columns: Sequence[str], condition: str) -> Iterator[pa.RecordBatch]:
        if self.changes is None:
            yield from self._of_silver(columns, condition)
            return
        rows = KeyRows(self.changes, self.keys)
        read = [*dict.fromkeys((*self.keys, POSITION, *columns))]
        overtaken = pa.array([], pa.int32())
        for batch in self._of_silver(read, condition):
            at = rows.find(batch)
            newer = pc.greater(self.changes[POSITION].combine_chunks().take(at), batch[POSITION]).fill_null(False)
            newer = pc.or_(newer, pc.take(self.forced, at).fill_null(False)) if self.forced is not None else newer
            older = pc.and_(pc.is_valid(at), pc.invert(newer))
            overtaken = pa.concat_arrays([overtaken, at.filter(older)])
            kept = batch.filter(pc.invert(newer))
            kept = kept if self.truncated is None else kept.filter(pc.greater_equal(kept[POSITION], self.truncated))
            yield kept.select(list(columns))
        here = pc.invert(pc.is_in(pa.array(range(self.changes.num_rows), pa.int32()), value_set=overtaken))
        stays = pc.or_(pc.not_equal(self.changes["_cdc_op"], "d"), self.keeps_deleted)
        rest = self.changes.filter(pc.and_(here, stays))
        yield from rest.select(list(columns)).to_batches()

    def _of_silver(self, columns: Sequence[str], condition: str) -> Iterator[pa.RecordBatch]:
        from deltalake import QueryBuilder

        if self.silver.table is None:
            return
        schema = pa.schema([self.schema.field(name) for name in columns])
        where = f" WHERE {condition}" if condition else ""
        listed = ", ".join(double_quote(name) for name in columns)
        query = QueryBuilder(_SESSION).register("t", self.silver.table).execute(f"SELECT {listed} FROM t{where}")
        for batch in pa.RecordBatchReader.from_stream(query):
            yield batch.cast(schema)


def read_now(silver: SilverVersion, committed: Committed, table: str, spec: Callable[[], SilverSpec]) -> TableNow:
    """The table at this version of silver, with what bronze has of it beyond.

    `spec` is asked only where there is something new. What it says must be of a moment after `committed` was read: its columns
    are then those that the events have, or newer ones, which the table's own ledger tells.

        silver at one version ─▶ its rows, less those that have a newer change ─┐
        bronze behind what that version has folded ─▶ newest change per key ────┴─▶ rows as the next fold leaves them

    Both stay as they are, whatever is committed while the rows are read.

    Raises:
        LeftToSparkError: only Spark folds what is new, or reads the table.
    """
    unread = _UNREAD & set(silver.table.protocol().reader_features or ()) if silver.table is not None else set()
    leave_first({f"the table has features of Delta that Spark reads: {', '.join(sorted(unread))}": unread})
    if not silver_job.has_news(committed.of_table(table), silver.folded):
        return TableNow(silver, committed.version, _columns_of(silver))
    return _with_changes(silver, committed, spec())


def _columns_of(silver: SilverVersion) -> pa.Schema:
    if silver.table is None:
        raise LeftToSparkError("there is neither a table nor an event of it")
    return pa.schema(silver.table.schema().to_arrow()).remove_metadata()


def _with_changes(silver: SilverVersion, committed: Committed, spec: SilverSpec) -> TableNow:
    if reason := reason_against(spec) if spec.keys else "the table has no key":
        raise LeftToSparkError(reason)
    before = silver.folded
    if before is None:
        silver_table.check_names(spec)
        spec = at_birth(spec)
    else:
        spec = spec_of_table(silver.table, spec, before)
    after = before.bronze_version if before else -1
    tail = BronzeTail(spec.bronze_path, [spec.table], after=after, version=committed.version)
    silver_run = SilverRun(None, spec, committed, before, uuid.uuid4().hex)  # type: ignore[arg-type]
    changes = newest_changes(SmallTable(spec, committed), silver_run, tail, silver.table)
    rows = changes.rows
    schema = rows.schema if silver.table is None else _columns_of(silver)
    rows = rows.select(schema.names).cast(schema)
    forced = np.isin(np.arange(rows.num_rows), changes.forced)
    truncated = changes.truncated if spec.truncate == "apply" else None
    own = {"keys": spec.keys, "changes": rows, "forced": pa.array(forced), "truncated": truncated}
    return TableNow(silver, committed.version, schema.remove_metadata(), **own, keeps_deleted=spec.deletes == "soft")
