"""Records that cannot be folded, kept beside silver with their bytes and the reason; whatever is behind them is folded.

A record is its (topic, partition, offset, epoch). The job writes here first and commits silver then: killed in
between, it finds the same records again, because both follow from bronze alone. `built_on` is the silver version that
the batch started from, so that the next attempt takes out what an attempt that never committed had left (a fix may
have made those records good). Nothing is deleted otherwise: a record that was folded after all has `redriven_at`, one
that was given up `dropped_at`. `superseded_by` is the position of a later event that says everything of the record's row: the
row is no longer in doubt.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.bronze.change_log import by_partition
from spark.errors import TableStopError, quantity
from spark.events.positions import EPOCH_WIDTH
from spark.silver.newest_event import behind
from spark.silver.typed_changes import FOUND_NO_ROW, MOVED, NO_ROW, key_slots
from spark.specs import SilverSpec
from spark.table.commit_metadata import CommittedTopic, Folded
from spark.table.delta_rs import is_delta, open_delta
from spark.table.identifiers import literal, table_at
from spark.table.log_reader import LOG
from spark.table.spark_session import compute_once, execute
from spark.table.table_folder import open_folder

SCHEMA = (
    "topic string, partition int, offset bigint, epoch int, timestamp timestamp, position string, behind string, op string, "
    "key binary, value binary, schema_id int, row_key string, error_class string, column string, message string, "
    "first_seen timestamp, built_on bigint, redriven_at timestamp, dropped_at timestamp, superseded_by string"
)
PLACE = ("topic", "partition", "offset")
IDENTITY = (*PLACE, "epoch")
COLUMNS = tuple(field.split()[0] for field in SCHEMA.split(", "))
UPDATED = ("row_key", "error_class", "column", "message", "behind", "built_on", "redriven_at")
OPEN = "redriven_at IS NULL AND dropped_at IS NULL"
_SETTLED = "unix_micros(greatest(redriven_at, dropped_at))"
PROPERTIES = {"delta.checkpointInterval": "100", "delta.enableDeletionVectors": "false"}


def row_key(spec: SilverSpec) -> Expression:
    """The key as JSON text; null when any of its columns could not be read."""
    slots = key_slots(spec)
    if not slots:
        return sf.lit(None).cast("string")
    is_complete = sf.lit(True)
    nullable = {c.name for c in spec.columns if c.nullable}
    for name, slot in zip(spec.keys, slots, strict=True):
        if name not in nullable:
            is_complete = is_complete & sf.col(slot).isNotNull()
    whole = sf.to_json(
        sf.struct(*[sf.col(s).alias(k) for k, s in zip(spec.keys, slots, strict=True)]), {"ignoreNullFields": "false"}
    )
    return sf.when(is_complete, whole)


def records(
    events: DataFrame, problems: DataFrame, spec: SilverSpec, *, topics: Mapping[str, CommittedTopic], before: Folded | None
) -> DataFrame:
    """Rows of the quarantine: the raw events (bronze) of changes that have a problem.

    `behind` is the record's position, or where that cannot be read, the highest before it in its partition.
    """
    built_on = before.version if before else -1
    position = sf.col("_cdc_position").alias("position")
    problem_rows = problems.where(sf.col("problem").isNotNull()).select(
        "topic", "partition", "offset", position, row_key(spec).alias("row_key"), "problem.*"
    )
    raw = events.select("topic", "partition", "offset", "timestamp", "position", "op", "key", "value")
    problem_rows = problem_rows.join(_before(raw, problem_rows), ["topic", "partition", "offset"], "left")
    folded = by_partition({topic: state.max_position for topic, state in before.topics.items()} if before else {})
    problem_rows = problem_rows.withColumn(
        "behind", sf.coalesce("position", behind(sf.greatest("highest", folded.cast("string"))), sf.lit(""))
    )
    same = [sf.col(f"f.{n}") == sf.col(f"r.{n}") for n in ("topic", "partition", "offset")]
    same.append(sf.col("f.position").eqNullSafe(sf.col("r.position")))
    joined = raw.alias("r").join(sf.broadcast(problem_rows).alias("f"), same)
    of_position = sf.conv(sf.substring(sf.col("r.position"), 1, EPOCH_WIDTH), 16, 10).cast("int")
    of_topic = sf.create_map(*[sf.lit(x) for topic, state in topics.items() for x in (topic, state.epoch)])[sf.col("r.topic")]
    confluent = sf.hex(sf.substring(sf.col("r.value"), 1, 1)) == "00"
    schema_id = sf.conv(sf.hex(sf.substring(sf.col("r.value"), 2, 4)), 16, 10).try_cast("int")
    rows = joined.select(
        *[sf.col(f"r.{n}") for n in ("topic", "partition", "offset")],
        sf.coalesce(of_position, of_topic).cast("int").alias("epoch"),
        *[sf.col(f"r.{n}") for n in ("timestamp", "position")],
        sf.col("f.behind"),
        *[sf.col(f"r.{n}") for n in ("op", "key", "value")],
        sf.when(confluent, schema_id).alias("schema_id"),
        *[sf.col(f"f.{n}") for n in ("row_key", "error_class", "column", "message")],
        sf.current_timestamp().alias("first_seen"),
        sf.lit(built_on).cast("bigint").alias("built_on"),
        sf.lit(None).cast("timestamp").alias("redriven_at"),
        sf.lit(None).cast("timestamp").alias("dropped_at"),
        sf.lit(None).cast("string").alias("superseded_by"),
    )
    return rows.dropDuplicates(list(IDENTITY))


def _before(raw: DataFrame, problem_rows: DataFrame) -> DataFrame:
    """The highest position before each record that has none."""
    unplaced = problem_rows.where(sf.col("position").isNull()).select("topic", "partition", sf.col("offset").alias("at"))
    earlier = raw.select("topic", "partition", "offset", "position").join(sf.broadcast(unplaced), ["topic", "partition"])
    highest = earlier.where(sf.col("offset") < sf.col("at")).groupBy("topic", "partition", "at").agg(sf.max("position"))
    return highest.toDF("topic", "partition", "offset", "highest")


def put(session: SparkSession, spec: SilverSpec, rows: DataFrame, *, built_on: int) -> int:
    """Keep these records, each once, in place of what an attempt from the same version had left; how many they are.

    Raises:
        TableStopError: when more records are open now than the table's limit; they are kept all the same.
    """
    rows = rows.transform(compute_once)
    _put(session, spec, rows, built_on=built_on)
    _check_limit(session, spec)
    return rows.count()


def _put(session: SparkSession, spec: SilverSpec, rows: DataFrame, *, built_on: int) -> None:
    if not exists(session, spec):
        rows.coalesce(1).write.format("delta").mode("error").options(**PROPERTIES).save(spec.quarantine)
    else:
        view = f"cdc_quarantine_{uuid.uuid4().hex}"
        same = " AND ".join(f"t.{n} = s.{n}" for n in IDENTITY)
        changed = ", ".join(f"t.{n} = s.{n}" for n in UPDATED)
        inserted = ", ".join(f"s.{n}" for n in COLUMNS)
        sql = (
            f"MERGE INTO {table_at(spec.quarantine)} t USING {view} s ON {same} "
            f"WHEN MATCHED AND t.dropped_at IS NULL THEN UPDATE SET {changed} "
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(COLUMNS)}) VALUES ({inserted}) "
            f"WHEN NOT MATCHED BY SOURCE AND t.built_on >= {built_on} "
            "AND t.redriven_at IS NULL AND t.dropped_at IS NULL THEN DELETE"
        )
        execute(session, sql, view=view, rows=rows)


def supersede(session: SparkSession, spec: SilverSpec, source: DataFrame) -> None:
    """Mark the open records that these changes, about to be merged, make obsolete.

    A part behind a record in quarantine is never among them: a change above the record says all of its row, or rests on one
    that does.
    """
    if not exists(session, spec):
        return
    row_keys = source.select(row_key(spec).alias("row_key"), sf.col("_cdc_position").alias("position"))
    row_keys = row_keys.where(sf.col("row_key").isNotNull()).transform(compute_once)
    open_ = table(session, spec).where(f"{OPEN} AND superseded_by IS NULL").select("row_key", "behind")
    if row_keys.join(sf.broadcast(open_), "row_key", "left_semi").isEmpty():
        return
    sql = (
        f"MERGE INTO {table_at(spec.quarantine)} t USING cdc_whole s ON t.row_key = s.row_key AND t.behind < s.position "
        f"WHEN MATCHED AND {OPEN} AND t.superseded_by IS NULL THEN UPDATE SET t.superseded_by = s.position"
    )
    execute(session, sql, view="cdc_whole", rows=row_keys)


def _check_limit(session: SparkSession, spec: SilverSpec) -> None:
    if spec.quarantine_limit is None:
        return
    open_records = table(session, spec).where(OPEN)
    count = open_records.count()
    if count <= spec.quarantine_limit:
        return
    first = open_records.orderBy("topic", "partition", "offset").first()
    assert first is not None
    # Its message may have a value of a sensitive column, and this one goes into logs and alerts.
    of_column = f" of column {first.column}" if first.column else ""
    raise TableStopError(
        f"table {spec.table}: {quantity(count, 'record')} in quarantine, its limit is {spec.quarantine_limit}; the first is "
        f"topic {first.topic} partition {first.partition} offset {first.offset}: {first.error_class}{of_column}; silver was not "
        "changed. Look at them (cdc quarantine list), then mend the cause, drop them, or raise quarantine.max_records"
    )


def exists(session: SparkSession, spec: SilverSpec) -> bool:
    """Whether anything was ever put there."""
    return open_folder(spec.quarantine).has_files(LOG)


def is_settled(spec: SilverSpec) -> bool:
    """Whether none of its records leaves a row in doubt, or waits: each was folded or given up since, or a later event
    says all of its row. Read without Spark."""
    from deltalake import QueryBuilder

    if not is_delta(spec.quarantine):
        return True
    doubts = f"SELECT error_class FROM quarantine WHERE {OPEN} AND (superseded_by IS NULL OR error_class = '{MOVED}') LIMIT 1"
    doubtful = QueryBuilder().register("quarantine", open_delta(spec.quarantine)).execute(doubts)
    return pa.RecordBatchReader.from_stream(doubtful).read_all().num_rows == 0


def table(session: SparkSession, spec: SilverSpec) -> DataFrame:
    """The quarantine, as it is."""
    return session.read.format("delta").load(spec.quarantine)


def waiting(session: SparkSession, spec: SilverSpec, *, built_on: int) -> DataFrame:
    """What silver version `built_on` is still to fold of a table without a key (spark.silver.keyless_tables).

    Records that wait for a row to take away, and those that an attempt from this version meant to fold.
    """
    meant = f"redriven_at IS NOT NULL AND built_on = {built_on}"
    return table(session, spec).where(f"({OPEN} AND error_class = '{NO_ROW}' AND built_on < {built_on}) OR ({meant})")


def paid(session: SparkSession, spec: SilverSpec, owed: DataFrame, unpaid: DataFrame, *, built_on: int) -> None:
    """Say that these records are folded, but `unpaid`, which go on waiting for a row; holds once silver has a version after
    `built_on`."""
    view = f"cdc_paid_{uuid.uuid4().hex}"
    position = sf.col("_cdc_position").alias("position")
    rest = unpaid.select(*PLACE, position, sf.lit(True).alias("unpaid")).distinct()
    rows = owed.select(*PLACE, position).distinct().join(rest, [*PLACE, "position"], "left")
    same = " AND ".join(f"t.{n} = s.{n}" for n in (*PLACE, "position"))
    sql = (
        f"MERGE INTO {table_at(spec.quarantine)} t USING {view} s ON {same} WHEN MATCHED AND s.unpaid IS NULL THEN "
        f"UPDATE SET t.redriven_at = current_timestamp(), t.built_on = {built_on} WHEN MATCHED THEN UPDATE SET "
        f"t.redriven_at = NULL, t.built_on = {built_on - 1}, t.error_class = '{NO_ROW}', t.column = NULL, "
        f"t.message = {literal(FOUND_NO_ROW)}"
    )
    execute(session, sql, view=view, rows=rows.transform(compute_once))


def obsolete(session: SparkSession, spec: SilverSpec, floor: str) -> None:
    """Open records below a TRUNCATE or a full snapshot: no row is in doubt because of them."""
    open_ = f"{OPEN} AND superseded_by IS NULL AND behind < {literal(floor)}"
    if exists(session, spec) and not table(session, spec).where(open_).isEmpty():
        session.sql(f"UPDATE {table_at(spec.quarantine)} SET superseded_by = {literal(floor)} WHERE {open_}").collect()


def holes(session: SparkSession, spec: SilverSpec) -> DataFrame:
    """Per key, the position of its newest record that is in quarantine."""
    open_ = table(session, spec).where(OPEN).where(sf.col("row_key").isNotNull())
    return open_.groupBy("row_key").agg(sf.max("behind").alias("hole"))


def doubts(session: SparkSession, spec: SilverSpec) -> DataFrame:
    """Per key with open records, `until`: the position from which on none of them leaves its row in doubt."""
    open_ = table(session, spec).where(f"{OPEN} AND row_key IS NOT NULL")
    return open_.groupBy("row_key").agg(sf.max(sf.coalesce("superseded_by", sf.lit("~"))).alias("until"))


def last_settlement(session: SparkSession, spec: SilverSpec) -> int:
    """When a record was last re-driven or given up, in microseconds since 1970; 0 when none was."""
    if not exists(session, spec):
        return 0
    newest = table(session, spec).agg(sf.max(sf.expr(_SETTLED))).first()
    return int(newest[0] or 0) if newest else 0


def settlements_after(session: SparkSession, spec: SilverSpec, at: int) -> DataFrame:
    """The records that were re-driven or given up after this."""
    return table(session, spec).where(f"{_SETTLED} > {at}")


def without_dropped(session: SparkSession, spec: SilverSpec, changes: DataFrame) -> DataFrame:
    """The changes less the records that were given up: they no longer stand in the way of what comes after them."""
    return at(changes, table(session, spec).where("dropped_at IS NOT NULL"), how="left_anti")


def without_set_aside(session: SparkSession, spec: SilverSpec, changes: DataFrame) -> DataFrame:
    """The changes that a table without a key has folded, or waits to: less the records that could not be read and have not been
    re-driven since, and less the deletes that were given up."""
    quarantined, no_row = table(session, spec), sf.col("error_class") == NO_ROW
    readable = at(changes, quarantined.where(~no_row & sf.col("redriven_at").isNull()), how="left_anti")
    given_up = quarantined.where(no_row & sf.col("dropped_at").isNotNull())
    is_delete = sf.col("_cdc_op") == "d"
    return at(readable.where(is_delete), given_up, how="left_anti").unionByName(readable.where(~is_delete))


def at(rows: DataFrame, places: DataFrame, *, position: str = "_cdc_position", how: str = "left_semi") -> DataFrame:
    """The rows (their position in column `position`) that are at one of these places, or with left_anti at none.

    A place is a topic, partition, offset and position, the position null where it cannot be read.
    """
    keys = places.select(*[sf.col(n).alias(f"p_{n}") for n in (*PLACE, "position")])
    same = [sf.col(n) == sf.col(f"p_{n}") for n in PLACE] + [sf.col(position).eqNullSafe(sf.col("p_position"))]
    return rows.join(sf.broadcast(keys), same, how)


def mark(session: SparkSession, spec: SilverSpec, seen: DataFrame) -> int:
    """Say of each open record among the events what became of it; how many were folded."""
    view = f"cdc_redriven_{uuid.uuid4().hex}"
    facts = seen.select(*PLACE, sf.col("_cdc_position").alias("position"), "problem.*").dropDuplicates([*PLACE, "position"])
    open_ = table(session, spec).where(OPEN)
    facts = at(facts, open_, position="position").transform(compute_once)
    same = " AND ".join(f"t.{n} = s.{n}" for n in PLACE) + " AND t.position <=> s.position"
    sql = (
        f"MERGE INTO {table_at(spec.quarantine)} t USING {view} s ON {same} AND {OPEN} "
        "WHEN MATCHED AND s.error_class IS NULL THEN UPDATE SET t.redriven_at = current_timestamp() "
        "WHEN MATCHED THEN UPDATE SET t.error_class = s.error_class, t.column = s.column, t.message = s.message"
    )
    execute(session, sql, view=view, rows=facts)
    return facts.where("error_class IS NULL").count()
