"""One batch of a keyed table: its newest change per key, which of its events are late, and what is set aside in
quarantine.

Late events, parts of rows, records that cannot be folded and TRUNCATE are paid for only when the batch's facts say
that they are there. An event is late at or below the highest position folded in its topic partition; while partitions
that were added are not past it, also at or below the highest position of that moment. A delete leaves no row, so only
the position tells: such a key is folded again from everything that bronze has of it, and rows taken out of bronze by
hand are not seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.bronze.change_log import by_partition, new_events, table_events
from spark.errors import TableStopError
from spark.events.positions import epoch_prefix
from spark.silver import quarantine_table, row_fold
from spark.silver.newest_event import newest_per_key, newest_schema, with_lateness
from spark.silver.row_fold import POSITION, FoldPlan
from spark.silver.typed_changes import decode_changes, key_slots
from spark.specs import SilverSpec
from spark.table.commit_metadata import Committed, CommittedTopic, Folded
from spark.table.spark_session import compute_once
from spark.table.topic_commits import all_schema_ids


def is_late(before: Folded | None) -> Expression:
    """Whether an event (column `_cdc_position`) is late for what has been folded.

    A delete leaves no row behind, so an older event of its key that comes after it would make the row anew. A late
    event is known by its position instead, and its key is folded again from everything that bronze has of it:

    - at or below the highest position folded in its topic partition. A key is always in the same partition;
    - unless partitions are added: then keys move, and the old partition may bring older events after the new one. `grown` is the
      highest position folded when that was seen. Until every partition is past it, whatever is at or below it is late as well.

    So the memory is one position per partition and at most one more, however many rows are deleted; it is part of
    silver's commit. What it costs instead is reading bronze when something is late: `late_events` and `refolded_keys`
    say how often. Bronze must hold all events of the keys that are folded again: rows taken out of it by hand are not
    seen again.
    """
    if before is None:
        return sf.lit(False)
    limits = {t: {p: late_limit(before, t, p) for p in state.max_position} for t, state in before.topics.items()}
    limit = sf.coalesce(by_partition(limits).cast("string"), sf.lit(before.grown))
    return sf.coalesce(sf.col("_cdc_position") <= limit, sf.lit(False))


def late_limit(before: Folded | None, topic: str, partition: int) -> str:
    """Up to which position, with it, an event of the partition is late (`is_late`); empty: none is."""
    if before is None:
        return ""
    state = before.topics.get(topic)
    return max(filter(None, (state.max_position.get(partition) if state else None, before.grown)), default="")


def position_of_growth(before: Folded | None, topics: Mapping[str, CommittedTopic]) -> str | None:
    """The position to remember besides those of the partitions, once `topics` is folded."""
    places = {(topic, p) for topic, state in topics.items() for p in state.positions}
    if len(places) < 2:
        return None
    places_before = {(topic, p) for topic, state in before.topics.items() for p in state.positions} if before else set()
    reached = {(topic, p): at for topic, state in topics.items() for p, at in state.max_position.items()}
    limit = before.grown if before and places <= places_before else max(reached.values(), default=None)
    if limit is None or all(reached.get(partition, "") >= limit for partition in places):
        return None
    return limit


def position_count(folded: Folded) -> int:
    """How many positions that are."""
    return sum(len(state.max_position) for state in folded.topics.values()) + (folded.grown is not None)


LOCAL_UP_TO = 20_000


@dataclass(frozen=True)
class SilverRun:
    """What one run of the job is about."""

    session: SparkSession
    spec: SilverSpec
    committed: Committed
    before: Folded | None
    operation_id: str
    computed: DataFrame | None = None
    """`changes`, computed already."""

    @cached_property
    def events(self) -> DataFrame:
        """What silver has not folded."""
        if self.before is None:
            return self.all_events
        return new_events(self.session, self.spec, self.committed, self.before)

    @cached_property
    def all_events(self) -> DataFrame:
        """Everything bronze holds of the table."""
        return table_events(self.session, self.spec, self.committed.version)

    @cached_property
    def changes(self) -> DataFrame:
        """`events`, decoded; once, since some envelopes look at records before they can read them. A table that is made anew has
        records among them that were given up."""
        if self.computed is not None:
            return self.computed
        decoded = self.decode(self.events)
        return self.less_dropped(decoded) if self.before is None else decoded

    @cached_property
    def all_changes(self) -> DataFrame:
        """The changes of `all_events`, decoded: those folded before as well."""
        return self.changes if self.before is None else self.decode(self.all_events)

    def hold_changes(self) -> SilverRun:
        """The same run, whose changes are not decoded again each time that they are looked at."""
        return replace(self, computed=self.changes.transform(compute_once))

    def decode(self, events: DataFrame) -> DataFrame:
        """Bronze rows of the table, decoded with the schemas that bronze's commits say there are."""
        ids = all_schema_ids(self.committed.of_table(self.spec.table).values())
        return decode_changes(events, replace(self.spec, schema_ids=ids))

    @property
    def silver(self) -> DataFrame:
        """The table that the changes go into, in the columns of the spec."""
        return self.session.read.format("delta").load(self.spec.path)

    @property
    def built_on(self) -> int:
        """The silver version that this run starts from."""
        return self.before.version if self.before else -1

    @property
    def floor(self) -> str | None:
        """What stands below it is gone: the newest TRUNCATE folded, or the begin of an epoch that the table has not seen.

        An epoch is opened only together with a reading of the whole table, so a row that has no event in it is not at the
        source any more, whatever the hole before it hid.
        """
        topics = self.before.topics if self.before else {}
        began = [
            epoch_prefix(state.epoch)
            for topic, state in self.committed.of_table(self.spec.table).items()
            if topic in topics and state.epoch > topics[topic].epoch
        ]
        return max(filter(None, (self.before.truncated if self.before else None, *began)), default=None)

    @property
    def first_floor(self) -> str | None:
        """Of a table made anew from all of bronze, the begin of its newest epoch: what the epoch took away stays away."""
        newest = max((state.epoch for state in self.committed.of_table(self.spec.table).values()), default=0)
        return epoch_prefix(newest) if self.before is None and newest else None

    def fold_state(self, *, truncated: str | None, quarantined: int, snapshot: str | None = None) -> Folded:
        """What silver has folded once this run's commit is there."""
        earlier = self.before.quarantined if self.before else 0
        topics = self.committed.of_table(self.spec.table)
        done = Folded(self.committed.version, topics, snapshot=snapshot, truncated=truncated, quarantined=earlier + quarantined)
        return replace(done, grown=position_of_growth(self.before, topics))

    def set_aside(self, problems: DataFrame, events: DataFrame) -> int:
        """Put what has a problem into quarantine, with the bytes of these bronze rows; how many records."""
        topics = self.committed.of_table(self.spec.table)
        rows = quarantine_table.records(events, problems, self.spec, topics=topics, before=self.before)
        return quarantine_table.put(self.session, self.spec, rows, built_on=self.built_on)

    def supersede(self, source: DataFrame) -> None:
        """Mark what is in quarantine of rows that these changes, about to be merged, say whole."""
        quarantine_table.supersede(self.session, self.spec, source)

    def obsolete(self, truncated: str) -> None:
        """Mark what is in quarantine from below this TRUNCATE."""
        quarantine_table.obsolete(self.session, self.spec, truncated)

    def mark(self, seen: DataFrame) -> None:
        """Say of what was in quarantine and is among these events what became of it."""
        quarantine_table.mark(self.session, self.spec, seen)

    def less_dropped(self, changes: DataFrame) -> DataFrame:
        """The changes less the records that were given up."""
        given_up = quarantine_table.exists(self.session, self.spec) if self.before is None else bool(self.before.quarantined)
        if not given_up:
            return changes
        return quarantine_table.without_dropped(self.session, self.spec, changes)


@dataclass(frozen=True)
class BatchFacts:
    """What a batch holds besides plain rows.

    Most batches need only the aggregation. What is rare is paid for only when these facts say that it is there.
    """

    late_events: int
    late_keys: int
    problems: int
    parts: int
    moved: int
    truncated: str | None

    @property
    def plain(self) -> bool:
        """Whether the batch holds plain rows and nothing else."""
        return not (self.late_events or self.problems or self.parts or self.truncated)


@dataclass(frozen=True)
class Newest:
    """The newest change per key, held where it can be read more than once, and its facts.

    `small`: no more records than LOCAL_UP_TO.
    """

    rows: DataFrame
    facts: BatchFacts
    small: bool = False


NOT_PLAIN = "CDC_NOT_PLAIN"
"""Ends a statement: the newest changes hold a part of a row, a TRUNCATE, or what cannot be folded."""


def read_plain_batch(silver_run: SilverRun) -> Newest:
    """The newest change per key, read once: whoever writes it meets NOT_PLAIN where it is more than plain rows.

    For a large batch that needs no MERGE: holding its rows only to ask for the facts made a first load twice as dear.
    """
    events = with_lateness(silver_run.changes, silver_run.spec, sf.lit(False))
    rows = newest_per_key(events, silver_run.spec)
    rare = (sf.col("problems") > 0) | part_of_row(silver_run.spec) | sf.col("truncated").isNotNull()
    stop = sf.raise_error(sf.lit(NOT_PLAIN)).cast("string")
    guarded = rows.withColumn("_cdc_op", sf.when(sf.coalesce(rare, sf.lit(True)), stop).otherwise(sf.col("_cdc_op")))
    return Newest(guarded, BatchFacts(0, 0, 0, 0, 0, None))


@contextmanager
def newest(silver_run: SilverRun, late: Expression, records: int) -> Iterator[Newest]:
    """MERGE reads its source twice; as a local relation the second reading costs nothing (3.5 s against 2.7 s)."""
    events = with_lateness(silver_run.changes, silver_run.spec, late)
    if records <= LOCAL_UP_TO:
        table = row_fold.newest_per_key(events.toArrow(), FoldPlan.of(silver_run.spec))
        # With its schema: Arrow's timestamps alone do not say whether they are of a time zone.
        local = silver_run.session.createDataFrame(table, newest_schema(events, silver_run.spec))
        yield Newest(local, _facts(table, silver_run.spec), small=True)
        return
    persisted = newest_per_key(events, silver_run.spec).persist()
    try:
        is_part = part_of_row(silver_run.spec)
        facts = persisted.agg(
            sf.sum("late").alias("late_events"),
            sf.count_if(sf.col("late") > 0).alias("late_keys"),
            sf.sum("problems").alias("problems"),
            sf.count_if(is_part).alias("parts"),
            sf.sum("moved").alias("moved"),
            sf.max("truncated").alias("truncated"),
        ).collect()[0]
        yield Newest(
            persisted,
            BatchFacts(
                *(int(facts.late_events or 0), int(facts.late_keys), int(facts.problems or 0)),
                *(int(facts.parts), int(facts.moved or 0), facts.truncated),
            ),
        )
    finally:
        persisted.unpersist()


def _facts(table: pa.Table, spec: SilverSpec) -> BatchFacts:
    late = table.column("late")
    return BatchFacts(
        _number(pc.sum(late)),
        _number(pc.sum(pc.greater(late, 0))),
        _number(pc.sum(table.column("problems"))),
        int(row_fold.are_parts(table, FoldPlan.of(spec)).sum()),
        _number(pc.sum(table.column("moved"))),
        pc.max(table.column("truncated")).as_py(),
    )


def _number(scalar: pa.Scalar) -> int:
    return int(scalar.as_py() or 0)


def part_of_row(spec: SilverSpec) -> Expression:
    """Whether a key's newest change does not hold its whole row; a soft delete keeps the row, but holds only its key."""
    is_part = sf.col("absent").isNotNull()
    return is_part | (sf.col("_cdc_op") == "d") if spec.deletes == "soft" else is_part


def position_of_truncate(silver_run: SilverRun, truncated: str | None) -> str | None:
    """The position of the newest TRUNCATE that this table obeys; `truncated` is that of the newest one in the batch.

    Raises:
        TableStopError: when the table is declared to stop at one.
    """
    floor = silver_run.floor
    if truncated is None or silver_run.spec.truncate == "ignore" or (floor is not None and truncated <= floor):
        return floor
    if silver_run.spec.truncate == "halt":
        raise TableStopError(
            f"table {silver_run.spec.table}: the source was truncated (position {truncated}), and the table is declared to "
            "stop at that; set truncate: apply, soft or ignore"
        )
    return truncated


def set_aside(silver_run: SilverRun, problems: list[DataFrame], events: DataFrame) -> int:
    """Quarantine the changes that have a problem; how many they are."""
    if not problems:
        return 0
    columns = ["topic", "partition", "offset", POSITION, *key_slots(silver_run.spec), "problem"]
    records = reduce(DataFrame.unionByName, [p.where(sf.col("problem").isNotNull()).select(*columns) for p in problems])
    records = records.dropDuplicates(["topic", "partition", "offset", POSITION]).transform(compute_once)
    return 0 if records.isEmpty() else silver_run.set_aside(records, events)
