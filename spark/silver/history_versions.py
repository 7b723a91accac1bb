"""The versions of rows in a history (SCD2): how events become them, which new events go on from the newest version of
their key, and the history read as of a point.

A key goes on from its newest version where every new event lies above all that the history says of it. With a late
event, one that cannot be folded, a record that was re-driven or given up, or a row moved from another key, the key is
folded again from all of bronze. A history that was lost begins again with the columns that its properties name, as
silver does (spark.silver.silver_table).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import BooleanType, StringType, StructField, StructType

from spark.events.positions import epoch_prefix
from spark.silver import quarantine_table, row_fold, table_generation
from spark.silver.column_ledger import DROPPED, DROPPED_NUMBER
from spark.silver.key_changes import keys_deleted_by
from spark.silver.key_slices import as_nullable, fold_slices
from spark.silver.keyed_batch import SilverRun, is_late
from spark.silver.newest_event import lacking, not_of_keys, of_keys, rest_slots
from spark.silver.row_fold import POSITION, FoldPlan
from spark.silver.schema_evolution import read_tracked
from spark.silver.silver_table import begin_table
from spark.silver.typed_changes import key_slots, slot
from spark.specs import META, VALID, SilverSpec
from spark.table.commit_metadata import Folded
from spark.table.identifiers import quote, table_at
from spark.table.spark_plans import all_of
from spark.table.spark_session import compute_once
from spark.table.topic_commits import CommittedTopic

_VALID = [StructField(name, BooleanType() if name == "_is_current" else StringType()) for name in VALID]


def versions(changes: DataFrame, spec: SilverSpec, truncates: Sequence[str]) -> DataFrame:
    """The versions that these changes make: all there are of their keys, or those from a row of the history on, which has the
    position where its version began in `began` (row_fold.versions). They are read twice, and so are made of what is computed."""
    keys, columns = key_slots(spec), [*key_slots(spec), *rest_slots(spec), *META]
    began = [name for name in changes.columns if name == "began"]
    events = changes.select(*columns, "topic", "partition", "offset", "absent", "problem", *began)
    events = events.transform(as_nullable)
    schema = StructType([*events.select(*columns).schema.fields, *_VALID])
    fold = partial(row_fold.versions, plan=FoldPlan.of(spec, _slots_of_versions(spec)), truncates=truncates)
    return fold_slices(events, keys, fold, schema)


def _slots_of_versions(spec: SilverSpec) -> list[str]:
    """The slots whose changes make a version of their own, rather than changing the one that holds."""
    keys = key_slots(spec)
    # What a renamed column leaves behind says nothing of its own.
    columns = [(slot(i), c) for i, c in enumerate(spec.columns) if slot(i) not in keys and not c.event_field.startswith(DROPPED)]
    return [name for name, column in columns if column.name in spec.track_history] or [name for name, _ in columns]


def name_versions(made: DataFrame, spec: SilverSpec) -> DataFrame:
    """Versions under the names that the table's columns have, with the source's types as comments."""
    names = [sf.col(slot(i)).alias(c.name, metadata={"comment": c.source_type}) for i, c in enumerate(spec.columns)]
    return made.select(*names, *META, *VALID)


class VersionMerge:
    """The pieces of a MERGE of versions `s` into a history `t`; rows of `s` with `gone` take away."""

    def __init__(self, spec: SilverSpec) -> None:
        self.targets = [(quote(c.name), slot(i)) for i, c in enumerate(spec.columns)] + [(m, m) for m in (*META, *VALID)]
        self.same_key = " AND ".join(f"t.{quote(k)} <=> s.{s}" for k, s in zip(spec.keys, key_slots(spec), strict=True))
        names, values = ", ".join(n for n, _ in self.targets), ", ".join(f"s.{v}" for _, v in self.targets)
        self.insert = f"WHEN NOT MATCHED AND NOT s.gone THEN INSERT ({names}) VALUES ({values})"

    @staticmethod
    def rows(made: DataFrame, gone: DataFrame | None) -> DataFrame:
        """What is made and what goes."""
        kept = made.withColumn("gone", sf.lit(False))
        return kept if gone is None else kept.unionByName(gone.withColumn("gone", sf.lit(True)), allowMissingColumns=True)


@dataclass(frozen=True)
class Tail:
    """What there is to go on from. `truncates` are the new ones, lowest first.

        events        new events, and per key the newest version as an event at the position of what made it; where it has
                      ended, a delete at the position where it did
        again         keys that must be folded from all of bronze instead

    Going on is right where every new event of a key lies above all that the history says of it. A key is folded again

    - if an event of it is late (spark.silver.keyed_batch), or at or below the newest TRUNCATE, or its own newest version: a
      version does not tell of the events within it that changed nothing tracked, nor which columns an event lacked;
    - if one of these events cannot be folded, or lies behind a record in quarantine that leaves its row in doubt;
    - if a record of it was re-driven or given up since the history's last run, with new events or without;
    - if it takes a row from another key (spark.silver.key_changes), or one that had to wait for its row to come is told now.

    All keys are, if a TRUNCATE lies below something that was delivered before it.
    """

    events: DataFrame
    again: DataFrame | None
    all_keys: bool
    refolded: int
    truncates: list[str]


def may_have_truncates(spec: SilverSpec, topics: Mapping[str, CommittedTopic]) -> bool:
    """Whether there may be TRUNCATEs that the table obeys."""
    return spec.truncate in ("apply", "soft") and any(state.by_op.get("t") for state in topics.values())


def read_tail(silver_run: SilverRun, before: Folded) -> Tail:
    """What is new is read and decoded once, here."""
    # A checkpoint, since a cached frame is sent with all that it was made of: Spark Connect reads plans of up to 100 levels, and
    # those of a table whose columns have changed were deeper.
    new, spec = silver_run.changes.transform(compute_once), silver_run.spec
    truncates = truncate_positions(new) if may_have_truncates(spec, silver_run.committed.of_table(spec.table)) else []
    begun = table_generation.generation_start(silver_run.events, spec, before.truncated)
    renewed = [begun, *table_generation.drops(spec, after=before.truncated or "")] if begun else []
    truncates = sorted({*truncates, *_epochs(silver_run, before), *renewed})
    rows = new.where("_cdc_op IS DISTINCT FROM 't'")
    newest = _newest(silver_run, rows.select(*key_slots(spec)).distinct()).transform(compute_once)
    again = _late(rows, newest, before, spec)
    if quarantine_table.exists(silver_run.session, spec):
        again = again.unionByName(_in_doubt(silver_run, rows)).unionByName(_keys_settled_since(silver_run, before))
    if before.waiting:
        again = again.unionByName(keys_deleted_by(rows, before.waiting, spec))
    again = again.distinct().transform(compute_once)
    count = again.count()
    all_keys = any(t <= before.highest for t in truncates)
    events = _events(newest, spec, rows).unionByName(rows.withColumn("began", sf.lit(None).cast("string")))
    return Tail(
        events=not_of_keys(events, again, spec) if count else events,
        again=again if count or all_keys else None,
        all_keys=all_keys,
        refolded=count,
        truncates=truncates,
    )


def _epochs(silver_run: SilverRun, before: Folded) -> list[str]:
    """The begins of epochs that the history has not seen: with each, the whole table is read again."""
    topics = silver_run.committed.of_table(silver_run.spec.table)
    spans = [(before.topics[t].epoch, state.epoch) for t, state in topics.items() if t in before.topics]
    return [epoch_prefix(epoch) for was, now in spans for epoch in range(was + 1, now + 1)]


def truncate_positions(changes: DataFrame) -> list[str]:
    """Where the TRUNCATEs among the changes stand, lowest first."""
    rows = changes.where((sf.col("_cdc_op") == "t") & sf.col("problem").isNull()).select(POSITION).distinct().collect()
    return sorted(row[0] for row in rows)


def _newest(silver_run: SilverRun, keys: DataFrame) -> DataFrame:
    """The newest version of each of these keys, in the columns of changes."""
    spec = silver_run.spec
    there = silver_run.session.read.format("delta").load(spec.path)
    columns = [sf.col(quote(c.name)).alias(f"c{i}") for i, c in enumerate(spec.columns)]
    versions_of_keys = of_keys(there.select(*columns, *META, "_valid_from", "_valid_to"), keys, spec)
    slots = key_slots(spec)
    rest = [n for n in versions_of_keys.columns if n not in slots]
    newest = versions_of_keys.groupBy(*slots).agg(sf.max_by(sf.struct(*rest), "_valid_from").alias("newest"))
    return newest.select(*slots, *[sf.col("newest").getField(n).alias(n) for n in rest])


def _late(rows: DataFrame, newest: DataFrame, before: Folded, spec: SilverSpec) -> DataFrame:
    """The keys with an event that what the history says does not suffice for."""
    keys = key_slots(spec)
    folded_to = sf.greatest(POSITION, "_valid_to").alias("known")
    ends = newest.select(*[sf.col(k).alias(f"e_{k}") for k in keys], folded_to)
    placed = rows.join(ends, all_of([sf.col(k).eqNullSafe(sf.col(f"e_{k}")) for k in keys]), "left")
    above = sf.coalesce(sf.col(POSITION) > sf.greatest(sf.lit(before.truncated or ""), "known"), sf.lit(False))
    return placed.where(is_late(before) | ~above | sf.col("problem").isNotNull() | lacking()).select(*keys)


def _in_doubt(silver_run: SilverRun, rows: DataFrame) -> DataFrame:
    """The keys with an event that a record in quarantine stands before, with nothing between that says all of the row."""
    session, spec = silver_run.session, silver_run.spec
    marked = rows.withColumn("row_key", quarantine_table.row_key(spec)).join(quarantine_table.doubts(session, spec), "row_key")
    return marked.where(sf.col(POSITION) <= sf.col("until")).select(*key_slots(spec))


def _keys_settled_since(silver_run: SilverRun, before: Folded) -> DataFrame:
    """The keys of the records that were re-driven or given up since."""
    session, spec = silver_run.session, silver_run.spec
    records = quarantine_table.settlements_after(session, spec, before.settled).transform(compute_once)
    if records.isEmpty():
        return silver_run.changes.select(*key_slots(spec)).limit(0)
    return quarantine_table.at(silver_run.all_changes, records).select(*key_slots(spec))


def _events(newest: DataFrame, spec: SilverSpec, like: DataFrame) -> DataFrame:
    """Newest versions as events: what made them, and the delete of those that have ended."""
    types = {f.name: f.dataType for f in like.schema.fields}
    own = {"topic": sf.lit(""), "partition": sf.lit(-1), "offset": sf.lit(-1), "began": sf.col("_valid_from")}
    none = {n: sf.lit(None) for n in ("snapshot", "absent", "problem")}
    constants = {**own, **none}

    def event(**other: Expression) -> list[Expression]:
        values = {**constants, **other}
        return [values.get(n, sf.col(n)).cast(types.get(n, "string")).alias(n) for n in (*like.columns, "began")]

    gone = {n: sf.lit(None) for n in (*rest_slots(spec), "began")}
    ended = newest.where("_valid_to IS NOT NULL").select(*event(**gone, _cdc_op=sf.lit("d"), _cdc_position=sf.col("_valid_to")))
    return newest.select(*event()).unionByName(ended)


def seed_history(session: SparkSession, spec: SilverSpec, properties: Mapping[str, str]) -> bool:
    """Make it, unless there is a history that has folded something; whether it is made.

    It has the columns that the lost one had, as silver gets its own (spark.silver.silver_table). The properties of the
    lost one say which: its schema ledger, and the columns whose changes made a version.
    """

    valid = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in _VALID)

    def empty(session: SparkSession, spec: SilverSpec, ddl: str) -> DataFrame:
        return name_versions(session.createDataFrame([], f"{ddl}, {valid}"), spec)

    return begin_table(session, spec, properties, empty)


def track_dropped(session: SparkSession, spec: SilverSpec) -> SilverSpec:
    """The spec, whose changes of a column that the source has dropped make versions where they have made some before."""
    dropped = {column.name for column in spec.columns if column.number == DROPPED_NUMBER}
    was = read_tracked(session, spec.path) or [] if spec.track_history else []
    return replace(spec, track_history=tuple(dict.fromkeys([*spec.track_history, *(name for name in was if name in dropped)])))


def rows_at(session: SparkSession, history: str, position: str | None, *, version: int | None = None) -> DataFrame:
    """The rows that held once the event at `position` had happened.

        `from spark.silver.history_versions import position_at, rows_at`
        `at = position_at(session, bronze, "orders", datetime(2026, 11, 1, tzinfo=timezone.utc))`
        `rows_at(session, history, at).show()`

    Two times are told apart: when a change happened at the source (its position, and the commit's time that Debezium
    sends), which is asked for here, and when the lake knew of it, which is Delta's own time travel of the history:
    VERSION or TIMESTAMP AS OF.

    Args:
        session: with Delta.
        history: path of the history table.
        position: as `_valid_from` has it; None is before everything.
        version: of the Delta table: what the lake knew then.
    """
    reader = session.read.format("delta")
    versions = (reader if version is None else reader.option("versionAsOf", version)).load(history)
    begun = sf.col("_valid_from") <= sf.lit(position).cast("string")
    holds = sf.col("_valid_to").isNull() | (sf.col("_valid_to") > sf.lit(position).cast("string"))
    return versions.where(begun & holds).drop("_is_current")


def position_at(session: SparkSession, bronze: str, table: str, time: datetime) -> str | None:
    """The highest position of the table's events that were committed at the source up to `time`; None before the first.

    Times of commits are the source's clock, in milliseconds or microseconds as its connector sends them.
    """
    until = sf.lit(time)
    events = session.table(table_at(bronze)).where((sf.col("table") == table) & (sf.col("source_ts") <= until))
    row = events.agg(sf.max("position").alias("at")).first()
    return row.at if row is not None else None
