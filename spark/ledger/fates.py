"""What became of each record of a slice in silver: exactly one fate per record.

    applied      it decided what its key's row is after the fold that took it (a delete: that the row is gone)
    superseded   a newer record of its key, or a TRUNCATE, was in the same fold
    older        the row had been decided by a newer record in an earlier fold: a replay, or an event that came late
    ignored      nothing to fold: tombstones behind deletes, messages, TRUNCATE where the table ignores it
    quarantined  silver could not fold it and holds it with the reason
    redriven     it was in quarantine and has been folded since
    dropped      it was in quarantine and was given up
    unaccounted  none of these: a fault, and never zero by construction

Told from bronze and silver's commits, not by the fold itself, so that the two can contradict each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from spark.envelopes.known_envelopes import envelope
from spark.ledger.folds import FoldsToCount, by_fold, highest, last_counted, place
from spark.ledger.terms import FATES
from spark.positions.layout import without_offset
from spark.positions.source_kinds import connector
from spark.silver import quarantine
from spark.silver.changes import decode_changes, key_slots
from spark.specs import SilverSpec

_RANK = {name: i for i, name in enumerate(FATES)}
_RECORD = ("topic", "epoch", "partition", "offset")


def with_fate(session: SparkSession, spec: SilverSpec, cut: FoldsToCount, rows: DataFrame, earlier: DataFrame) -> DataFrame:
    """`rows` (bronze rows with `epoch`, `fold`, `window`, `kind`) as `window, kind, fate`.

    `earlier` are the rows that the ledger had counted before; looked at only where records came late.
    """
    held = _quarantine(session, spec) if cut.last.quarantined else None
    ignored = _is_ignored(spec)
    aside = rows.join(sf.broadcast(held), [*_RECORD], "left") if held is not None else rows.withColumn("held", _nothing())
    settled = sf.coalesce(sf.when(ignored, "ignored"), sf.col("held"))
    told = aside.withColumn("settled", settled)
    done = told.where(sf.col("settled").isNotNull()).select("window", "kind", sf.col("settled").alias("fate"))
    open_ = told.where(sf.col("settled").isNull())
    if spec.keys:
        late = any(f.late_events for f in cut.folds)
        before = earlier.where(~ignored) if late else None
        if before is not None and held is not None:
            before = before.join(sf.broadcast(held.where("held <> 'redriven'")), [*_RECORD], "left_anti")
        decided = _fates_by_key(spec, cut, open_, before)
    elif spec.multiset:
        decided = _fates_by_partition(cut, told.where(~ignored))
    else:
        decided = _keyless(session, spec, cut, open_)
    return done.unionByName(decided)


def _nothing() -> Expression:
    return sf.lit(None).cast("string")


def _is_ignored(spec: SilverSpec) -> Expression:
    silent = sf.col("op").eqNullSafe("m")
    if not envelope(spec.envelope).tombstones_delete(connector(spec.connector)):
        silent = silent | sf.col("value").isNull()
    if spec.truncate == "ignore":
        silent = silent | sf.col("op").eqNullSafe("t")
    return silent


def _quarantine(session: SparkSession, spec: SilverSpec) -> DataFrame:
    table = quarantine.table(session, spec)
    state = sf.when(sf.col("dropped_at").isNotNull(), "dropped").when(sf.col("redriven_at").isNotNull(), "redriven")
    return table.select(*_RECORD, state.otherwise("quarantined").alias("held"))


def _fates_by_key(spec: SilverSpec, cut: FoldsToCount, rows: DataFrame, earlier: DataFrame | None) -> DataFrame:
    keys = key_slots(spec)
    changes = _changes(spec, rows)
    if earlier is not None:
        changes = changes.unionByName(_of_late_keys(spec, cut, changes, _changes(spec, earlier)))
    fold = sf.col("fact")["fold"]
    events = changes.withColumns({"fold": fold, "said": sf.when(sf.col("_cdc_op") != "t", sf.col("_cdc_position"))})
    same_fold = Window.partitionBy(*keys, "fold")
    found = events.withColumn("newest", sf.max("said").over(same_fold))
    if earlier is not None:
        before = Window.partitionBy(*keys).orderBy("fold").rangeBetween(Window.unboundedPreceding, -1)
        found = found.withColumn("before", sf.max("said").over(before)).where(sf.col("fold") >= 0)
    else:
        found = found.withColumn("before", _nothing())
    position = sf.col("_cdc_position")
    truncated, known = _truncates(spec, cut)
    fate = (
        sf.when(position.isNull(), "unaccounted")
        .when(sf.col("_cdc_op") == "t", _of_truncate(cut))
        .when(position <= sf.coalesce(known, sf.lit("")), "older")
        .when(position <= sf.col("before"), "older")
        .when(position <= sf.coalesce(truncated, sf.lit("")), "superseded")
        .when(position == sf.col("newest"), "applied")
        .otherwise("superseded")
    )
    told = found.select("topic", "partition", "offset", "fact", fate.alias("fate"))
    if not spec.envelope.startswith("debezium"):
        # An event of these may change two rows; the record's fate is the better one.
        rank = sf.min(reduce(lambda e, n: e.when(sf.col("fate") == n, _RANK[n]), FATES, sf.when(sf.lit(False), -1)))
        told = told.groupBy("topic", "partition", "offset", "fact").agg(rank.alias("rank"))
        told = told.withColumn("fate", sf.get(sf.array(*map(sf.lit, FATES)), sf.col("rank")))
    return told.select(sf.col("fact")["window"].alias("window"), sf.col("fact")["kind"].alias("kind"), "fate")


def _changes(spec: SilverSpec, rows: DataFrame) -> DataFrame:
    """Key, op and position of each event, its record's facts in `fact`.

    The facts travel where the transaction id would, which every envelope hands on as it is.
    """
    fact = sf.struct("epoch", "fold", "window", "kind", "event_at")
    read = decode_changes(rows.withColumn("tx_id", fact), spec)
    return read.select(
        "topic", "partition", "offset", *key_slots(spec), "_cdc_op", "_cdc_position", sf.col("_cdc_tx_id").alias("fact")
    )


def _of_late_keys(spec: SilverSpec, cut: FoldsToCount, changes: DataFrame, earlier: DataFrame) -> DataFrame:
    """What was counted before of the keys that have a record at or below what was already folded in its partition."""
    keys = key_slots(spec)
    arrays = [
        x for key, known in highest(cut).items() for x in (sf.lit(key), sf.array(*[sf.lit(v).cast("string") for v in known]))
    ]
    placed = changes.withColumn("epoch", sf.col("fact")["epoch"])
    folded = sf.get(sf.create_map(*arrays)[place()], sf.col("fact")["fold"])
    late = placed.where(sf.col("_cdc_position") <= folded).select(*[sf.col(k).alias(f"late_{k}") for k in keys]).distinct()
    same = [sf.col(k).eqNullSafe(sf.col(f"late_{k}")) for k in keys]
    return earlier.join(sf.broadcast(late), same, "left_semi")


def _truncates(spec: SilverSpec, cut: FoldsToCount) -> tuple[Expression, Expression]:
    """The position of the newest TRUNCATE that emptied the table: after the row's fold, and before it."""
    if spec.truncate != "apply":
        return _nothing(), _nothing()
    after = [f.truncated for f in cut.folds]
    before = [cut.start.truncated if cut.start else None, *after[:-1]]
    if not any(after):
        return _nothing(), _nothing()
    return by_fold(after, sf.col("fold")), by_fold(before, sf.col("fold"))


def _of_truncate(cut: FoldsToCount) -> Expression:
    after = [f.truncated for f in cut.folds]
    before = [cut.start.truncated if cut.start else None, *after[:-1]]
    position = sf.col("_cdc_position")
    if not any(after):
        return sf.lit("unaccounted")
    return (
        sf.when(position <= sf.coalesce(by_fold(before, sf.col("fold")), sf.lit("")), "older")
        .when(position == by_fold(after, sf.col("fold")), "applied")
        .when(position < by_fold(after, sf.col("fold")), "superseded")
        .otherwise("unaccounted")
    )


def _keyless(session: SparkSession, spec: SilverSpec, cut: FoldsToCount, rows: DataFrame) -> DataFrame:
    """Without a key every event is a row of its own: it is there, or it was delivered before or replaced by a snapshot."""
    silver = session.read.format("delta").option("versionAsOf", cut.last.version).load(spec.path)
    there = silver.select(sf.col("_cdc_position").alias("position"), sf.lit(True).alias("there")).distinct()
    found = rows.join(there, "position", "left")
    fate = (
        sf.when(sf.col("op").eqNullSafe("t"), _of_truncate_row(cut))
        .when(sf.col("position").isNull(), "unaccounted")
        .when(sf.col("there"), "applied")
        .otherwise("older")
    )
    return found.select("window", "kind", fate.alias("fate"))


def _fates_by_partition(cut: FoldsToCount, rows: DataFrame) -> DataFrame:
    """Of a multiset every event counts that is not `settled`, unless its place had been passed in its partition, or a snapshot or
    TRUNCATE replaces it. At the last place that had been passed it is a replay where it follows one."""
    before = Window.partitionBy("topic", "epoch", "partition").orderBy("offset").rangeBetween(Window.unboundedPreceding, -1)
    position, at = sf.col("position"), without_offset(sf.col("position"))
    folded = sf.get(_by_place({key: sf.array(*map(_text, known)) for key, known in highest(cut).items()}), sf.col("fold"))
    marked = rows.withColumn("passed", without_offset(sf.greatest(sf.max("position").over(before), folded)))
    last = without_offset(_by_place({key: _text(known) for key, known in last_counted(cut).items()}))
    follows = sf.coalesce(sf.last(at < sf.col("passed"), ignorenulls=True).over(before), last < sf.col("passed"), sf.lit(False))
    marked = marked.withColumn("repeated", (at < sf.col("passed")) | ((at == sf.col("passed")) & follows))
    floor = max(filter(None, (cut.last.snapshot, cut.last.truncated)), default="")
    fate = (
        sf.when(sf.col("op").eqNullSafe("t"), _of_truncate_row(cut))
        .when(position.isNull(), "unaccounted")
        .when(sf.col("repeated"), "older")
        .when(position < floor, "superseded")
        .otherwise("applied")
    )
    return marked.where(sf.col("settled").isNull()).withColumn("fate", fate).select("window", "kind", "fate")


def _text(value: str | None) -> Expression:
    return sf.lit(value).cast("string")


def _by_place(values: Mapping[str, Expression]) -> Expression:
    """The value of the row's place."""
    return sf.create_map(*[x for key, value in values.items() for x in (sf.lit(key), value)])[place()]


def _of_truncate_row(cut: FoldsToCount) -> Expression:
    newest = cut.last.truncated
    if newest is None:
        return sf.lit("unaccounted")
    position = sf.col("position")
    return sf.when(position == newest, "applied").when(position < newest, "superseded").otherwise("unaccounted")
