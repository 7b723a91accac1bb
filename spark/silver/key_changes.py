"""Key changes: a row under its new key takes what its event does not hold from the row under its old key.

A change of the key comes as the delete of the old key and a create of the new one, and PostgreSQL leaves unchanged
TOASTed values out of the create as well. Both are one write: they share the place in the source's log, which tells
them apart from every other delete and create (Debezium's header `__debezium.oldkey` would say the same, as text that a
header converter made of it). The create is completed from the row of the old key right before that delete, not as it
is in the table: it may have changed, gone or come again since. Chains and swaps refer from create to create; pointers
are doubled until none is left, so that n changes of a key in one batch take log2(n) rounds.

A create whose old row cannot be known is set aside (`moved`): its delete is not there yet (another partition), or a
record between is in quarantine. Once the delete is there, or the record is re-driven, it is looked at again.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from spark.events.record_readers import write_of
from spark.silver import quarantine_table
from spark.silver.newest_event import POSITION, add_places, holds, lacking, of_keys, rest_slots
from spark.silver.silver_table import keeps_deleted_rows
from spark.silver.typed_changes import MOVED, PROBLEM, key_slots, problem_value
from spark.specs import DELETED, META, SilverSpec
from spark.table.identifiers import quote
from spark.table.spark_plans import all_of, any_of
from spark.table.spark_session import compute_once

LOOKED_BACK = 8
"""Steps of a chain that are followed one by one before every moved row's keys are taken: each step is a job."""


def complete_creates(own: DataFrame, changes: DataFrame, spec: SilverSpec, *, rows: DataFrame | None = None) -> DataFrame:
    """The events `own` (all of their keys among `changes`) with their lacking creates completed, or with the problem.

    `rows` are rows of the table before these changes, as events; without them, `changes` is all there is.
    """
    if own.where(lacking()).isEmpty():
        return own
    pairs = _pairs(changes, spec)
    keys = _sources(own, pairs, spec)
    seen = of_keys(changes, keys, spec)
    if rows is not None:
        seen = seen.unionByName(of_keys(rows, keys, spec))
    return _fill_creates(own, _resolve_roots(_before_deletes(seen, pairs, spec), spec), spec)


def rows_as_events(rows: DataFrame, spec: SilverSpec, *, truncated: str | None) -> DataFrame:
    """The rows of the table as events of their positions; none that is gone."""
    if keeps_deleted_rows(spec):
        rows = rows.where(~sf.coalesce(sf.col(DELETED), sf.lit(False)))
    if truncated is not None:
        rows = rows.where(sf.col(POSITION) > truncated)
    return rows.select(
        sf.lit("").alias("topic"),
        sf.lit(-1).alias("partition"),
        sf.lit(-1).cast("bigint").alias("offset"),
        sf.lit(None).cast("string").alias("snapshot"),
        *[sf.col(quote(c.name)).alias(f"c{i}") for i, c in enumerate(spec.columns)],
        *[sf.col(m) if m != "_cdc_op" else sf.lit("r").alias(m) for m in META],
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


def _sources(own: DataFrame, pairs: DataFrame, spec: SilverSpec) -> DataFrame:
    """The keys whose rows the lacking creates of `own` may need, directly or through other creates."""
    slots = key_slots(spec)
    writes = own.where(lacking()).select(write_of(sf.col(POSITION), spec.connector).alias("write")).distinct()
    chain = pairs.join(writes, "write", "left_semi").transform(compute_once)
    size = chain.count()
    for _ in range(LOOKED_BACK):
        same = all_of([sf.col(f"p.n_{k}").eqNullSafe(sf.col(f"f.o_{k}")) for k in slots])
        more = pairs.alias("p").join(chain.alias("f"), same, "left_semi")
        grown = chain.unionByName(more).distinct().transform(compute_once)
        before, size = size, grown.count()
        if size == before:
            break
        chain = grown
    else:
        chain = pairs
    return chain.select(*[sf.col(f"o_{k}").alias(k) for k in slots]).distinct()


def _before_deletes(seen: DataFrame, pairs: DataFrame, spec: SilverSpec) -> DataFrame:
    """Per key change: `known` (whether there was a row and nothing is missing), its columns v_c0.. (null where the event
    that made the row lacks them) and `root`, the key change that this event was."""
    keys, rest = key_slots(spec), rest_slots(spec)
    fit = sf.col("problem").isNull()
    events = add_places(seen, spec).withColumns({"write": write_of(sf.col(POSITION), spec.connector), "lacks": lacking()})
    order = Window.partitionBy(*keys).orderBy("place", sf.col(POSITION).isNull(), "offset")
    so_far = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    # A row begins with an event that says everything, or with one that says it comes from another key.
    begins = fit & (sf.col("absent").isNull() | sf.col("lacks"))
    events = events.withColumn("life", sf.sum(begins.cast("int")).over(so_far))
    life = Window.partitionBy(*keys, "life").orderBy("place", sf.col(POSITION).isNull(), "offset")
    life = life.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    events = events.withColumns(
        {
            "known": (sf.col("life") > 0) & (sf.first(sf.col("_cdc_op")).over(life) != "d") & ~sf.bool_or(~fit).over(life),
            "root": sf.max(sf.when(sf.col("lacks"), sf.col("write"))).over(life),
            **{
                f"v_{n}": sf.last(sf.when(fit & holds(n, spec), sf.struct(sf.col(n).alias("value"))), ignorenulls=True).over(life)
                for n in rest
            },
        }
    )
    state = sf.struct("known", "root", *[f"v_{n}" for n in rest])
    events = events.withColumn("before", sf.lag(state).over(order))
    # A delivery repeated: the first one stands behind the row, the others behind the first.
    first = events.where(fit & (sf.col("_cdc_op") == "d")).join(pairs.select("write"), "write", "left_semi")
    first = first.groupBy("write").agg(sf.min_by("before", POSITION).alias("before"))
    return first.select("write", "before.*").transform(compute_once)


def _resolve_roots(links: DataFrame, spec: SilverSpec) -> DataFrame:
    """The same with every root followed to its end; `known` only where that end is known."""
    rest = rest_slots(spec)
    while not links.where("root IS NOT NULL AND known").isEmpty():
        ends = links.select(
            sf.col("write").alias("root"),
            sf.coalesce("known", sf.lit(False)).alias("r_known"),
            sf.col("root").alias("r_root"),
            *[sf.col(f"v_{n}").alias(f"r_{n}") for n in rest],
        )
        followed_ = links.join(ends, "root", "left")
        more = sf.col("root").isNotNull()
        links = followed_.select(
            "write",
            sf.when(more, sf.col("known") & sf.coalesce("r_known", sf.lit(False))).otherwise(sf.col("known")).alias("known"),
            sf.col("r_root").alias("root"),
            *[sf.coalesce(f"v_{n}", sf.when(more, sf.col(f"r_{n}"))).alias(f"v_{n}") for n in rest],
        ).transform(compute_once)
    return links


def _fill_creates(own: DataFrame, links: DataFrame, spec: SilverSpec) -> DataFrame:
    rest = rest_slots(spec)
    joined = own.withColumn("write", sf.when(lacking(), write_of(sf.col(POSITION), spec.connector))).join(links, "write", "left")

    def without(name: str) -> Expression:
        return sf.coalesce(sf.array_contains("absent", int(name[1:])), sf.lit(False))

    missing = [without(n) & sf.col(f"v_{n}").isNull() for n in rest]
    whole = sf.coalesce(sf.col("known"), sf.lit(False)) & ~any_of(missing)
    done = joined.withColumns({"lacks": lacking(), "whole": whole})
    why = sf.lit("the row has a new key, and what it was under the old one is not known; ALTER TABLE ... REPLICA IDENTITY FULL")
    values = {n: sf.when(sf.col("lacks") & without(n), sf.col(f"v_{n}")["value"]).otherwise(sf.col(n)) for n in rest}
    problem = sf.when(sf.col("lacks") & ~sf.col("whole"), problem_value(MOVED, why)).otherwise(sf.col("problem"))
    absent = sf.when(~(sf.col("lacks") & sf.col("whole")), sf.col("absent"))
    return done.withColumns({**values, "problem": problem, "absent": absent}).select(*own.columns)
