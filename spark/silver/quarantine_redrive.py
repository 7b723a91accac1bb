"""Records in quarantine folded after all, once what stood against them is mended (a type, a key, a rule, a release).

The place of such a record is its position, not the end of the line: its keys are folded again from everything that
bronze has of them up to what silver has folded, and the result replaces silver's rows. Silver is committed first and
the records are marked then; killed in between, the same command does the same again.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.bronze.change_log import fold_at_last_run, table_events
from spark.silver import keyless_tables, quarantine_table, silver_table, spark_merge
from spark.silver.key_changes import complete_creates
from spark.silver.newest_event import POSITION, after_truncate, fold_per_key, mark_problems, of_keys
from spark.silver.schema_evolution import align_columns
from spark.silver.typed_changes import MOVED, decode_changes
from spark.specs import SilverSpec
from spark.table.commit_metadata import Folded, silver_metadata
from spark.table.delta_table import table_of
from spark.table.identifiers import literal, table_at
from spark.table.spark_failures import run_again
from spark.table.spark_session import compute_once
from spark.table.write_lease import lend_to_spark


@dataclass(frozen=True)
class Choice:
    """Which open records: each of the given facts must hold; without any, all."""

    error_class: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None

    def condition(self) -> str:
        """As SQL over the quarantine's columns."""
        parts = [quarantine_table.OPEN]
        parts += [
            f"{name} = {literal(value)}" for name, value in (("error_class", self.error_class), ("topic", self.topic)) if value
        ]
        numbers = (("partition", self.partition), ("offset", self.offset))
        parts += [f"{name} = {value}" for name, value in numbers if value is not None]
        return " AND ".join(parts)


@dataclass(frozen=True)
class Redriven:
    """What became of the chosen records."""

    chosen: int
    redriven: int
    version: int | None
    seconds: float


def redrive(session: SparkSession, spec: SilverSpec, choice: Choice) -> Redriven:
    """Fold the chosen records in their place; those that still cannot be folded stay, with today's reason."""
    with lend_to_spark(spec.path):
        return run_again(lambda: _redrive(session, spec, choice))


def _redrive(session: SparkSession, spec: SilverSpec, choice: Choice) -> Redriven:
    started = time.monotonic()
    before = table_of(spec.path).silver_folded()
    if before is None or not quarantine_table.exists(session, spec):
        return Redriven(0, 0, None, round(time.monotonic() - started, 3))
    spec = align_columns(session, spec, after=before.highest)
    chosen = (
        quarantine_table.table(session, spec)
        .where(choice.condition())
        .select(*quarantine_table.PLACE, "position")
        .transform(compute_once)
    )
    if spec.multiset:
        redriven, version = keyless_tables.redrive_multiset(session, spec, before, chosen)
        return Redriven(chosen.count(), redriven, version, round(time.monotonic() - started, 3))
    events = table_events(session, spec, fold_at_last_run(spec, before).version)
    changes = quarantine_table.without_dropped(session, spec, decode_changes(events, spec))
    if spec.truncate == "apply":
        changes = after_truncate(changes, before.truncated)
    version, seen = (_redrive_keyed if spec.keys else _keyless)(session, spec, before, changes, chosen)
    redriven = quarantine_table.mark(session, spec, seen)
    return Redriven(chosen.count(), redriven, version, round(time.monotonic() - started, 3))


def _redrive_keyed(
    session: SparkSession, spec: SilverSpec, before: Folded, changes: DataFrame, chosen: DataFrame
) -> tuple[int | None, DataFrame]:
    # A moved row may have waited for just these records.
    moved = quarantine_table.table(session, spec).where(f"{quarantine_table.OPEN} AND error_class = '{MOVED}'")
    places = chosen.unionByName(moved.select(*chosen.columns)).distinct()
    own = of_keys(changes, quarantine_table.at(changes, places), spec).transform(compute_once)
    seen = mark_problems(complete_creates(own, changes, spec), spec).transform(compute_once)
    rows = fold_per_key(seen, spec).withColumn("forced", sf.lit(True)).transform(compute_once)
    if rows.isEmpty():
        return None, seen
    operation_id = uuid.uuid4().hex
    metadata = silver_metadata(operation_id, before, {"redriven": rows.count()})
    return spark_merge.execute(session, spec, rows, metadata, operation_id, truncated=None).version, seen


def _keyless(
    session: SparkSession, spec: SilverSpec, before: Folded, changes: DataFrame, chosen: DataFrame
) -> tuple[int | None, DataFrame]:
    seen = quarantine_table.at(changes, chosen).transform(compute_once)
    there = session.read.format("delta").load(spec.path).select(sf.col("_cdc_position").alias("there"))
    rows = seen.where(sf.col("problem").isNull()).join(there, sf.col(POSITION) == sf.col("there"), "left_anti")
    if rows.isEmpty():
        return None, seen
    operation_id = uuid.uuid4().hex
    writer = silver_table.name_columns(rows, spec).write.format("delta").mode("append")
    writer.option("userMetadata", silver_metadata(operation_id, before, {})).save(spec.path)
    return table_of(spec.path).find_commit(operation_id).version, seen


def drop(session: SparkSession, spec: SilverSpec, choice: Choice) -> int:
    """Give the chosen records up: they stay readable, and no longer stand in the way of later parts of their rows."""
    return _drop(session, spec, choice.condition())


def drop_runs(session: SparkSession, spec: SilverSpec, runs: Mapping[str, Mapping[int, Sequence[tuple[int, int]]]]) -> int:
    """The same of the open records at these offsets: by topic and partition runs, with their last one."""
    places = [
        f"(topic = {literal(topic)} AND partition = {partition} AND offset BETWEEN {first} AND {last})"
        for topic, partitions in runs.items()
        for partition, at in partitions.items()
        for first, last in at
    ]
    return _drop(session, spec, f"{quarantine_table.OPEN} AND ({' OR '.join(places)})") if places else 0


def _drop(session: SparkSession, spec: SilverSpec, condition: str) -> int:
    # Whoever folds the table writes its quarantine too, and maintenance takes old records out of it: under the same lease.
    with lend_to_spark(spec.path):
        if not quarantine_table.exists(session, spec):
            return 0
        count = quarantine_table.table(session, spec).where(condition).count()
        if count:
            session.sql(f"UPDATE {table_at(spec.quarantine)} SET dropped_at = current_timestamp() WHERE {condition}").collect()
        return count
