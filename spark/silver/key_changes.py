"""Key changes: a row under its new key takes what its event does not hold from the row under its old key.

A change of the key comes as the delete of the old key and a create of the new one, and PostgreSQL leaves unchanged
TOASTed values out of the create as well. Both are one write: they share the place in the source's log, which tells
them apart from every other delete and create (Debezium's header `__debezium.oldkey` would say the same, as text that a
header converter made of it). The create is completed from the row of the old key right before that delete, not as it
is in the table: it may have changed, gone or come again since. Chains and swaps refer from create to create. Creates
are dealt into slices, each with the events of the keys that its rows come from, so that no task holds all of them
(spark.silver.key_slices).

A create whose old row cannot be known is set aside (`moved`): its delete is not there yet (another partition), or a
record between is in quarantine. Once the delete is there, or the record is re-driven, it is looked at again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.events.record_readers import write_of
from spark.silver import quarantine_table, row_fold
from spark.silver.key_slices import as_nullable, fold_slices
from spark.silver.newest_event import lacking
from spark.silver.row_fold import OF_TABLE, POSITION, FoldPlan
from spark.silver.silver_table import keeps_deleted_rows
from spark.silver.typed_changes import MOVED, PROBLEM, key_slots, lake_types, slot
from spark.specs import DELETED, META, SilverSpec
from spark.table.identifiers import quote
from spark.table.spark_plans import all_of
from spark.table.spark_session import compute_once

MOST_CREATES = 20_000
"""That are completed at once, with the events of the keys that their rows come from."""
LOOKED_BACK = 8
"""Steps of a chain that are followed one by one before every moved row's keys are taken: each step is a job."""


def complete_creates(own: DataFrame, changes: DataFrame, spec: SilverSpec, *, rows: DataFrame | None = None) -> DataFrame:
    """The events `own` (all of their keys among `changes`) with their lacking creates completed, or with the problem.

    `rows` are rows of the table before these changes, as events; without them, `changes` is all there is.
    """
    count = own.where(lacking()).count()
    if not count:
        return own
    is_lacking, write = sf.coalesce(lacking(), sf.lit(False)), write_of(sf.col(POSITION), spec.connector).alias("write")
    number = sf.pmod(sf.xxhash64("write"), sf.lit(-(-count // MOST_CREATES)))
    events = as_nullable(own)
    creates = events.where(is_lacking).select("*", write, is_lacking.alias("lacks")).withColumn("slice", number)
    keys = _sources(creates, _pairs(changes, spec), spec)
    seen = _of_slices(changes, keys, spec)
    if rows is not None:
        seen = seen.unionByName(_of_slices(rows, keys, spec))
    seen = as_nullable(seen).select(*own.columns, write, is_lacking.alias("lacks"), "slice")
    both = creates.withColumn("creates", sf.lit(True)).unionByName(seen.withColumn("creates", sf.lit(False)))
    fill = partial(row_fold.fill_slices, plan=FoldPlan.of(spec))
    filled = fold_slices(both.transform(compute_once), ["slice"], fill, events.schema).transform(compute_once)
    return events.where(~is_lacking).unionByName(filled)


def _of_slices(events: DataFrame, keys: DataFrame, spec: SilverSpec) -> DataFrame:
    """The events of each slice's keys, with its number."""
    slots = key_slots(spec)
    chosen = keys.select("slice", *[sf.col(k).alias(f"w_{k}") for k in slots])
    same = all_of([sf.col(k).eqNullSafe(sf.col(f"w_{k}")) for k in slots])
    return events.join(sf.broadcast(chosen), same).drop(*[f"w_{k}" for k in slots])


def rows_as_events(
    rows: DataFrame, spec: SilverSpec, *, truncated: str | None, slots: Collection[str] | None = None
) -> DataFrame:
    """The rows of the table as events of their positions, with the values of these slots (None: of all); a row that is marked as
    deleted is a delete, and one below `truncated` is none."""
    if truncated is not None:
        rows = rows.where(sf.col(POSITION) > truncated)
    op = sf.lit("r")
    if keeps_deleted_rows(spec):
        op = sf.when(sf.coalesce(sf.col(DELETED), sf.lit(False)), "d").otherwise(op)
    names = {slot(i): sf.col(quote(column.name)) for i, column in enumerate(spec.columns)}
    read = names.keys() if slots is None else {*slots, *key_slots(spec)}
    types = dict(zip(names, lake_types(spec), strict=True))
    values = [value if name in read else sf.lit(None).cast(types[name].name) for name, value in names.items()]
    return rows.select(
        sf.lit(OF_TABLE).alias("topic"),
        sf.lit(-1).alias("partition"),
        sf.lit(-1).cast("bigint").alias("offset"),
        sf.lit(None).cast("string").alias("snapshot"),
        *[value.alias(name) for name, value in zip(names, values, strict=True)],
        *[sf.col(m) if m != "_cdc_op" else op.alias(m) for m in META],
        sf.lit(None).cast("array<int>").alias("absent"),
        sf.lit(None).cast(PROBLEM).alias("problem"),
    )


def waiting(session: SparkSession, spec: SilverSpec, changes: DataFrame) -> DataFrame | None:
    """The places of the creates set aside, if a delete that one of them waits for is among the changes."""
    if not quarantine_table.exists(session, spec):
        return None
    creates = quarantine_table.table(session, spec).where(f"error_class = '{MOVED}' AND dropped_at IS NULL")
    writes = creates.select(write_of(sf.col("position"), spec.connector).alias("write"))
    deletes = changes.where("_cdc_op = 'd' AND problem IS NULL").withColumn("write", write_of(sf.col(POSITION), spec.connector))
    return None if deletes.join(sf.broadcast(writes), "write", "left_semi").isEmpty() else creates


def waiting_writes(own: DataFrame, done: DataFrame, known: Sequence[str], spec: SilverSpec) -> tuple[str, ...]:
    """The writes of the creates that still wait for the row under the old key: of `known` those that are not among `own`, and
    those that `complete_creates` could not complete (`done`)."""
    write = write_of(sf.col(POSITION), spec.connector)
    looked_at = own.where(write.isin(list(known))).select(write.alias("write")).distinct().collect() if known else []
    left = set(known) - {row["write"] for row in looked_at}
    # `complete_creates` gives back what it was given where nothing lacks anything.
    missing = done.where(sf.col("problem.error_class") == MOVED)
    waits = missing.select(write.alias("write")).distinct().collect() if done is not own else []
    return tuple(sorted(left | {row["write"] for row in waits}))


def keys_deleted_by(rows: DataFrame, writes: Sequence[str], spec: SilverSpec) -> DataFrame:
    """The keys that these writes took a row away from."""
    gone = rows.where("_cdc_op = 'd' AND problem IS NULL")
    return gone.where(write_of(sf.col(POSITION), spec.connector).isin(list(writes))).select(*key_slots(spec))


def follow_moves(keys: DataFrame, changes: DataFrame, spec: SilverSpec) -> DataFrame:
    """These keys, and those that their rows were moved to by creates which lack something: what a history folds again."""
    if changes.where(lacking()).isEmpty():
        return keys
    pairs = _pairs(changes, spec)
    slots, known_keys = key_slots(spec), keys.count()
    while True:
        more = pairs.select(*[sf.col(f"n_{k}").alias(k) for k in slots], *[sf.col(f"o_{k}") for k in slots])
        same = all_of([sf.col(f"o_{k}").eqNullSafe(sf.col(f"k_{k}")) for k in slots])
        key_frame = keys.select(*[sf.col(k).alias(f"k_{k}") for k in slots])
        grown = keys.unionByName(more.join(key_frame, same, "left_semi").select(*slots)).distinct().transform(compute_once)
        before, known_keys = known_keys, grown.count()
        if known_keys == before:
            return keys
        keys = grown


def _pairs(changes: DataFrame, spec: SilverSpec) -> DataFrame:
    """Old key, new key and place of every key change whose create lacks something."""
    slots, write = key_slots(spec), write_of(sf.col(POSITION), spec.connector).alias("write")
    news = changes.where(lacking()).select(write, *[sf.col(k).alias(f"n_{k}") for k in slots]).distinct()
    deletes = changes.where("_cdc_op = 'd' AND problem IS NULL")
    olds = deletes.select(write, *[sf.col(k).alias(f"o_{k}") for k in slots]).distinct()
    return news.join(olds, "write").transform(compute_once)


def _sources(creates: DataFrame, pairs: DataFrame, spec: SilverSpec) -> DataFrame:
    """By `slice` the keys whose rows its creates may need, directly or through other creates."""
    slots = key_slots(spec)
    chain = pairs.join(creates.select("write", "slice").distinct(), "write").transform(compute_once)
    size = chain.count()
    for _ in range(LOOKED_BACK):
        same = all_of([sf.col(f"p.n_{k}").eqNullSafe(sf.col(f"f.o_{k}")) for k in slots])
        more = pairs.alias("p").join(chain.alias("f"), same).select("p.*", "f.slice")
        grown = chain.unionByName(more).distinct().transform(compute_once)
        before, size = size, grown.count()
        if size == before:
            break
        chain = grown
    else:
        chain = pairs.crossJoin(creates.select("slice").distinct())
    return chain.select("slice", *[sf.col(f"o_{k}").alias(k) for k in slots]).distinct().transform(compute_once)
