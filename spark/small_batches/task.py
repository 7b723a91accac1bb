"""One small append: what of the ranges bronze lacks is read from Kafka and becomes one commit, or is left to Spark.

Of two appends that have seen the same log the second is refused by the number of its turn, whichever of the two writers each is
(spark.bronze.job): delta-rs refuses a commit when another with our application's name has come since its snapshot.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from spark.bronze import job as bronze_job
from spark.bronze.overlap import APP
from spark.delta.bronze_columns import NAMES
from spark.delta.commits import Committed, bronze_metadata, fold, surviving
from spark.delta.first_commit import create_table
from spark.delta.lease import lend_to_task
from spark.delta.local_log import newest_commits
from spark.delta.topic_commits import TopicCommit
from spark.errors import HistoryTooShortError, LeftToSparkError
from spark.kafka.offset_ranges import remaining
from spark.positions.layout import EPOCH_WIDTH, NUMBER_WIDTH
from spark.small_batches import groups, narrow, reading
from spark.small_tables.merge import attempt, commit_settings, find_version
from spark.specs import BronzeSpec, JobResult, TopicRange

if TYPE_CHECKING:
    from deltalake import DeltaTable

_LOOKS = (1, 20, 400)
_NOTHING = pa.table({})


def append(spec: BronzeSpec) -> JobResult:
    """Append what of the ranges is not committed yet.

    Raises:
        LeftToSparkError: Spark has to look at it; nothing is committed.
        RangeGapError, TopicChangedError: as spark.bronze.job.
    """
    with lend_to_task(spec.path):
        return _append(spec)


def _append(spec: BronzeSpec) -> JobResult:
    from deltalake import DeltaTable

    started = time.monotonic()
    committed = _look_at_log(spec.path)
    table = DeltaTable(spec.path) if committed.version >= 0 else None
    if table is not None and table.version() != committed.version:
        raise LeftToSparkError("somebody else appends at the same time")
    if table is not None and {f.name for f in table.schema().fields} != set(NAMES):
        raise LeftToSparkError("bronze has other columns")
    todo = [left for topic in spec.topics if (left := remaining(topic, committed)) is not None]
    if not todo:
        return bronze_job.result(None, {}, [], started)
    records = read(spec, todo)
    if not records.num_rows:
        raise LeftToSparkError("the ranges hold no records")
    shares = groups.shares(todo, groups.count_groups(records))
    version = _commit(table, spec, records.select(list(NAMES)), committed, shares)
    return bronze_job.result(version, shares, todo, started)


def _look_at_log(path: str) -> Committed:
    for look in _LOOKS:
        commits = newest_commits(path, look)
        if not commits:
            if Path(path, "_delta_log").exists():
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


def read(spec: BronzeSpec, todo: Sequence[TopicRange]) -> pa.Table:
    """The records of the ranges with bronze's columns, and `initial` (spark.small_batches.narrow)."""
    topics = {topic.topic: topic for topic in todo}
    chunks = reading.read_ranges(spec, [t for t in todo if any(end > start for start, end in t.ranges.values())])
    return pa.concat_tables([_with_positions(_narrow(chunk, todo), topics) for chunk in chunks] or [_NOTHING])


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
    offset = pa.array([f"{n:0{NUMBER_WIDTH}x}" for n in records["offset"].to_pylist()], pa.string())
    position = pc.binary_join_element_wise(epoch, records["place"].combine_chunks(), offset, ".")
    own = {"table": of([t.table for t in values], pa.string()), "epoch": of([t.epoch for t in values], pa.int32())}
    own["position"] = position
    return reduce(lambda table, name: table.append_column(name, own[name]), own, records)


def _commit(
    table: DeltaTable | None, spec: BronzeSpec, records: pa.Table, committed: Committed, shares: Mapping[str, TopicCommit]
) -> int:
    from deltalake import Transaction, WriterProperties, write_deltalake

    rows = records.sort_by([(name, "ascending") for name in ("table", "partition", "offset")])
    metadata = bronze_metadata(spec.operation_id, committed, shares)
    if table is None:
        create_table(spec.path, rows, bronze_job.TABLE_PROPERTIES, metadata, turn=(APP, committed.turn))
        return find_version(spec.path, spec.operation_id)
    settings = commit_settings(metadata, app_transactions=[Transaction(APP, committed.turn)], max_commit_retries=3)
    attempt(
        lambda: write_deltalake(
            table,
            rows,
            mode="append",
            writer_properties=WriterProperties(compression="ZSTD"),
            **settings,
        ),
        spec.path,
        spec.operation_id,
    )
    return find_version(spec.path, spec.operation_id)
