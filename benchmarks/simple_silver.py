"""The simple case that the full semantics are measured against: silver as it was first asked for, and nothing beyond.

"Current state by primary key for Debezium JSON with inserts, updates, deletes, tombstones, snapshot rows, the fold rules 1,
2, 3, 5, typed by the source's own column types. Kill -9 at any point: the next run ends in the same table." What that takes:

    inserts, updates, deletes, tombstones, snapshot rows   `from_json` of the after-image; the key from the record's key; a
                                                           tombstone says what the delete before it said
    rules 1, 3 (the highest position wins)                 newest per key by bronze's position, MERGE above the row's own
    rule 2 (no revival by what comes late or twice)        an event at or below the highest position folded in its partition
                                                           makes its key be folded again from all of bronze
    rule 5 (a key's update is a delete and a create)       is two events in Debezium, and two keys here
    typed by the source's own types, kept with the table   the conversions of spark.values; the table's own columns are looked at
                                                           first; what does not fit stops the job, never becomes NULL
    killed, run again                                      the positions folded are in the metadata of the commit with the rows

It is the first version of spark/silver/fold_job.py, less what of it was for TOAST and tables without a key, with one Spark job
fewer for a small batch. Reading the Delta log and the table's properties are the product's own: they are no semantics.
"""

from __future__ import annotations

import uuid

import pyarrow.compute as pc
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from spark.bronze.change_log import new_events, table_events
from spark.silver import silver_table
from spark.silver.typed_changes import slot
from spark.specs import META, SilverSpec
from spark.table import spark_plans
from spark.table.commit_metadata import Committed, CommittedTopic, Folded, fold, silver_metadata
from spark.table.delta_table import Commit, table_of
from spark.table.identifiers import quote, table_at
from spark.table.spark_session import execute
from spark.values.lake_types import lake_type

LOCAL_UP_TO = 20_000
CORRUPT = "corrupt"


def run(session: SparkSession, spec: SilverSpec) -> Commit | None:
    """Bring the table up to what bronze has committed; None when it is."""
    committed = table_of(spec.bronze_path).fold(fold)
    topics, before = committed.of_table(spec.table), table_of(spec.path).silver_folded()
    if before is not None and all(before.topics[name].positions == state.positions for name, state in topics.items()):
        return None
    # The same way of executing plans as the product's.
    news = _records(topics) - (_records(before.topics) if before else 0)
    spark_plans.suit(session, events=news, rows=spark_plans.rows_at_most(topics.values()))
    operation_id = uuid.uuid4().hex
    metadata = silver_metadata(operation_id, Folded(committed.version, topics), {})
    if before is None:
        rows = newest_per_key(decoded(table_events(session, spec, committed.version), spec), spec, sf.lit(False))
        writer = silver_table.name_columns(rows.where("_cdc_op <> 'd'"), spec).write.format("delta").mode("error")
        writer.options(**silver_table.table_properties(spec)).option("userMetadata", metadata).save(spec.path)
        return table_of(spec.path).find_commit(operation_id)
    _same_types(session, spec)
    changes = newest_per_key(decoded(new_events(session, spec, committed, before), spec), spec, _late(before))
    if news <= LOCAL_UP_TO:
        table = changes.toArrow()
        local = session.createDataFrame(table, changes.schema) if table.num_rows else changes
        _merge(session, spec, committed, local, bool(pc.sum(table["late"]).as_py()), metadata)
    else:
        held = changes.persist()
        try:
            _merge(session, spec, committed, held, not held.where("late > 0").isEmpty(), metadata)
        finally:
            held.unpersist()
    return table_of(spec.path).find_commit(operation_id)


def decoded(events: DataFrame, spec: SilverSpec) -> DataFrame:
    """Typed changes; the job ends at a record that is none of the simple case."""
    keys = [c for c in spec.columns if c.name in spec.keys]
    texts = StructType([StructField(c.name, StringType()) for c in spec.columns])
    key = StructType([StructField(c.name, StringType()) for c in keys])
    envelope = StructType([StructField("before", key), StructField("after", texts), StructField(CORRUPT, StringType())])
    carried = ("topic", "partition", "offset", "position", "op", "source_ts", "tx_id")
    parsed = events.select(
        *carried,
        sf.from_json(sf.col("value").cast("string"), envelope, {"columnNameOfCorruptRecord": CORRUPT}).alias("value"),
        sf.from_json(sf.col("key").cast("string"), key).alias("key"),
    )
    unfit = (
        ~sf.coalesce(sf.col("op").isin("c", "u", "d", "r"), sf.lit(False))
        | sf.col("position").isNull()
        | sf.col("value").isNull()
        | sf.col(f"value.{CORRUPT}").isNotNull()
        | ((sf.col("op") != "d") & sf.col("value.after").isNull())
    )
    leaves = parsed.select(
        *carried, unfit.alias("unfit"), *[_leaf(c.name, spec).alias(f"t{i}") for i, c in enumerate(spec.columns)]
    )
    typed = leaves.select("*", *[lake_type(c).convert(sf.col(f"t{i}")).alias(slot(i)) for i, c in enumerate(spec.columns)])
    wrong = sf.col("unfit")
    for i, column in enumerate(spec.columns):
        misfit = sf.col(f"t{i}").isNotNull() & sf.col(slot(i)).isNull()
        wrong = wrong | (misfit | sf.col(f"t{i}").isNull() if column.name in spec.keys else misfit)
    place = sf.concat_ws("/", "topic", "partition", "offset")
    checked = sf.when(wrong, sf.raise_error(sf.concat(sf.lit("a record cannot be folded: "), place)).cast("string"))
    return typed.select(
        *("topic", "partition", "offset"),
        *[slot(i) for i in range(len(spec.columns))],
        sf.col("position").alias("_cdc_position"),
        checked.otherwise(sf.col("op")).alias("_cdc_op"),
        sf.col("source_ts").alias("_cdc_source_ts"),
        sf.col("tx_id").alias("_cdc_tx_id"),
    )


def _leaf(name: str, spec: SilverSpec) -> Expression:
    after = sf.col("value.after").getField(name)
    if name not in spec.keys:
        return after
    return sf.coalesce(sf.col("key").getField(name), after, sf.col("value.before").getField(name))


def newest_per_key(changes: DataFrame, spec: SilverSpec, late: Expression) -> DataFrame:
    """One row per key: its event with the highest position; `late` counts its events that came late."""
    keys = _keys(spec)
    carried = [*[slot(i) for i in range(len(spec.columns)) if slot(i) not in keys], *META]
    newest = sf.max_by(sf.struct(*carried), sf.col("_cdc_position")).alias("newest")
    folded = changes.groupBy(*keys).agg(newest, sf.count_if(late).alias("late"))
    return folded.select(*keys, *[sf.col("newest").getField(name).alias(name) for name in carried], "late")


def _late(before: Folded) -> Expression:
    """Whether an event is at or below what has been folded in its partition."""
    known = {f"{topic}/{p}": at for topic, state in before.topics.items() for p, at in state.max_position.items()}
    if not known:
        return sf.lit(False)
    highest = sf.create_map(*[sf.lit(x) for pair in known.items() for x in pair])[sf.concat_ws("/", "topic", "partition")]
    return sf.coalesce(sf.col("_cdc_position") <= highest, sf.lit(False))


def _merge(session: SparkSession, spec: SilverSpec, committed: Committed, batch: DataFrame, late: bool, metadata: str) -> None:
    source = batch.drop("late")
    if late:
        keys = _keys(spec)
        wanted = sf.broadcast(batch.where("late > 0").select(*keys))
        events = decoded(table_events(session, spec, committed.version), spec).join(wanted, keys, "left_semi")
        again = newest_per_key(events, spec, sf.lit(False)).drop("late")
        source = batch.where("late = 0").drop("late").unionByName(again)
    execute(session, _statement(spec), view="simple_changes", rows=source, metadata=metadata)


def _statement(spec: SilverSpec) -> str:
    targets = [(quote(c.name), slot(i)) for i, c in enumerate(spec.columns)] + [(m, m) for m in META]
    names = [c.name for c in spec.columns]
    same = " AND ".join(f"t.{quote(k)} = s.{slot(names.index(k))}" for k in spec.keys)
    newer = "s._cdc_position > t._cdc_position"
    return (
        f"MERGE INTO {table_at(spec.path)} t USING simple_changes s ON {same} "
        f"WHEN MATCHED AND {newer} AND s._cdc_op = 'd' THEN DELETE "
        f"WHEN MATCHED AND {newer} THEN UPDATE SET {', '.join(f't.{n} = s.{v}' for n, v in targets)} "
        f"WHEN NOT MATCHED AND s._cdc_op <> 'd' THEN "
        f"INSERT ({', '.join(n for n, _ in targets)}) VALUES ({', '.join(f's.{v}' for _, v in targets)})"
    )


def _same_types(session: SparkSession, spec: SilverSpec) -> None:
    """The source's types are kept with the table: another one now ends the job."""
    present = {f.name: f.dataType.simpleString() for f in session.read.format("delta").load(spec.path).schema.fields}
    for column in spec.columns:
        if present.get(column.name) != lake_type(column).name:
            raise TypeError(f"column {column.name}: {present.get(column.name)} in the table, {column.source_type} at the source")


def _keys(spec: SilverSpec) -> list[str]:
    names = [c.name for c in spec.columns]
    return [slot(names.index(k)) for k in spec.keys]


def _records(topics: dict[str, CommittedTopic]) -> int:
    return sum(sum(state.by_op.values()) for state in topics.values())
