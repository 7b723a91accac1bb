"""In tasks: what of a batch's ranges bronze lacks is read from Kafka into files, and becomes one commit, or is left to Spark.

    append        one task does it all
    write_part    one of several tasks writes its part of the records
    commit_parts  then one task commits what they have written

Of two appends that have seen the same log the second is refused by the number of its turn, whichever of the two writers each is
(spark.bronze.job): delta-rs refuses a commit when another with our application's name has come since its snapshot.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from spark.bronze import job as bronze_job
from spark.delta.commits import Committed, fold, surviving
from spark.delta.data_files import write_file
from spark.delta.lease import lend_to_task
from spark.delta.local_log import LOG, newest_commits
from spark.envelopes.arrow_rows import sort_rows, write_hexadecimal
from spark.errors import HistoryTooShortError, LeftToSparkError
from spark.kafka.offset_ranges import remaining
from spark.lake.folder import open_folder
from spark.positions.layout import EPOCH_WIDTH, NUMBER_WIDTH
from spark.small_batches import commit, groups, narrow, reading
from spark.small_batches.parts import BatchPart, divide, identify
from spark.specs import BronzeSpec, JobResult, TopicRange

_LOOKS = (1, 20, 400)
_ORDER = ("table", "partition", "offset")
_ROWS_APART = 4096
ReadRanges = Callable[[BronzeSpec, Sequence[TopicRange]], list[pa.Table]]
"""spark.small_batches.reading.read_ranges, or another way to the same records."""


@dataclass(frozen=True)
class BatchWork:
    """What bronze has committed, and what of the ranges it has not."""

    committed: Committed
    todo: Sequence[TopicRange]


def append(spec: BronzeSpec, read_ranges: ReadRanges = reading.read_ranges) -> JobResult:
    """Append what of the ranges is not committed yet.

    Raises:
        LeftToSparkError: Spark has to look at it; nothing is committed.
        RangeGapError, TopicChangedError: as spark.bronze.job.
    """
    started = time.monotonic()
    work = look(spec)
    if not work.todo:
        return bronze_job.result(None, {}, [], started)
    return commit_parts(spec, [_write(spec, work.todo, work, read_ranges)], started=started)


def write_part(spec: BronzeSpec, number: int, parts: int) -> BatchPart:
    """Part `number` of `parts` of what is not committed yet: a file that no commit names. Others may append meanwhile.

    Raises:
        LeftToSparkError: Spark has to look at it.
        RangeGapError, TopicChangedError: as spark.bronze.job.
    """
    work = look(spec)
    own = divide(work.todo, parts)
    return _write(spec, own[number], work, reading.read_ranges) if number < len(own) else BatchPart(identify(work.todo))


def commit_parts(spec: BronzeSpec, parts: Sequence[BatchPart], *, started: float | None = None) -> JobResult:
    """Commit what tasks have written of the same records; where that fails, their files go.

    Others may have appended other topics meanwhile, as the run of another table does.

    Raises:
        LeftToSparkError: somebody has appended some of the records, or there is nothing to commit; nothing is committed.
    """
    started = time.monotonic() if started is None else started
    with lend_to_task(spec.path):
        work = look(spec)
        if not work.todo:
            # An executor that is lost has its task run again: then the files are committed. Others are left to VACUUM.
            return bronze_job.result(None, {}, [], started)
        if {part.whole for part in parts} != {identify(work.todo)}:
            discard_parts(spec, parts)
            raise LeftToSparkError("somebody else appended some of these records meanwhile")
        return _commit(spec, work, parts, started)


def discard_parts(spec: BronzeSpec, parts: Sequence[BatchPart]) -> None:
    """Remove files that no commit names, or was tried with."""
    folder = open_folder(spec.path)
    for part in parts:
        if part.file is not None:
            folder.delete(part.file["path"])


def look(spec: BronzeSpec) -> BatchWork:
    """Bronze's log as it is now.

    Raises:
        LeftToSparkError: it does not tell here what is committed.
    """
    committed = _look_at_log(spec.path)
    return BatchWork(committed, [left for topic in spec.topics if (left := remaining(topic, committed)) is not None])


def _look_at_log(path: str) -> Committed:
    for newest in _LOOKS:
        commits = newest_commits(path, newest)
        if not commits:
            if open_folder(path).has_files(LOG):
                raise LeftToSparkError("bronze has a log that is not read here")
            return fold([])
        try:
            committed = fold(surviving(commits))
        except HistoryTooShortError:
            continue
        if committed.overlaps or not committed.topics:
            raise LeftToSparkError("bronze has to be looked at first")
        return committed
    raise LeftToSparkError("bronze's log does not tell what is committed")


def _write(spec: BronzeSpec, todo: Sequence[TopicRange], of: BatchWork, read_ranges: ReadRanges) -> BatchPart:
    """Not under the table's lock: another run's append does not wait until this one's records are read."""
    records, whole = read(spec, todo, read_ranges), identify(of.todo)
    if not records.num_rows:
        return BatchPart(whole)
    found = groups.count_groups(records)
    rows = sort_rows(records.select(commit.SCHEMA.names).cast(commit.SCHEMA), _ORDER)
    folder = open_folder(spec.path)
    folder.make()
    return BatchPart(whole, write_file(folder, rows, groups=row_groups(rows["table"])), found)


def row_groups(tables: pa.ChunkedArray) -> list[int]:
    """Rows that are read apart: of one table, or of several small ones. Who folds some tables reads little of others."""
    found: list[int] = []
    for count in tables.value_counts().field("counts").to_pylist():
        if found and found[-1] < _ROWS_APART:
            found[-1] += count
        else:
            found.append(count)
    return found


def _commit(spec: BronzeSpec, work: BatchWork, parts: Sequence[BatchPart], started: float) -> JobResult:
    files = [part.file for part in parts if part.file is not None]
    if not files:
        raise LeftToSparkError("the ranges hold no records")
    shares = groups.shares(work.todo, [group for part in parts for group in part.groups])
    version = commit.commit_files(spec, work.committed, files, shares)
    return bronze_job.result(version, shares, work.todo, started)


def read(spec: BronzeSpec, todo: Sequence[TopicRange], read_ranges: ReadRanges) -> pa.Table:
    """The records of the ranges with bronze's columns, and `initial` (spark.small_batches.narrow)."""
    topics = {topic.topic: topic for topic in todo}
    chunks = read_ranges(spec, [t for t in todo if any(end > start for start, end in t.ranges.values())])
    narrowed = [_with_positions(_narrow(chunk, todo), topics) for chunk in chunks]
    return pa.concat_tables(narrowed) if narrowed else pa.table({})


def _narrow(records: pa.Table, todo: Sequence[TopicRange]) -> pa.Table:
    kinds = sorted({topic.connector for topic in todo})
    parts = []
    for kind in kinds:
        own = [topic.topic for topic in todo if topic.connector == kind]
        part = records if len(kinds) == 1 else records.filter(pc.is_in(records["topic"], value_set=pa.array(own)))
        parts.append(narrow.narrow(part, kind))
    return pa.concat_tables(parts)


def _with_positions(records: pa.Table, topics: Mapping[str, TopicRange]) -> pa.Table:
    names = records["topic"].combine_chunks().dictionary_encode()
    values = [topics[name] for name in names.dictionary.to_pylist()]

    def of(each: Sequence[object], kind: pa.DataType) -> pa.Array:
        return pa.array(each, kind).take(names.indices)

    epoch = of([f"{t.epoch:0{EPOCH_WIDTH}x}" for t in values], pa.string())
    offset = write_hexadecimal(records["offset"].combine_chunks(), NUMBER_WIDTH)
    position = pc.binary_join_element_wise(epoch, records["place"].combine_chunks(), offset, ".")
    own = {"table": of([t.table for t in values], pa.string()), "epoch": of([t.epoch for t in values], pa.int32())}
    own["position"] = position
    return reduce(lambda table, name: table.append_column(name, own[name]), own, records)
