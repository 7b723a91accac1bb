"""A slice of bronze as counts: records by window and kind, how long each hop took, and exactly one fate in silver per
record.

Fates: *applied* (it decided its key's row), *superseded* (a newer record of its key or a TRUNCATE was in the same
fold), *older* (the row had been decided by an earlier fold), *ignored* (nothing to fold), *quarantined*, *redriven*,
*dropped* (given up), *unaccounted* (none of these: a fault). They are told from bronze and silver's commits, not by
the fold itself, so that the two can contradict each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from spark.bronze.change_log import all_rows, highest_gone, rows_in_log, table_floors
from spark.events.envelope import TOMBSTONE, UNKNOWN, kind
from spark.events.positions import without_offset
from spark.events.record_readers import connector, envelope
from spark.proof.ledger_contract import FATES, WINDOW
from spark.proof.ledger_folds import FoldsToCount, by_fold, ends, fold_number, highest, last_counted, place_of_record
from spark.proof.ledger_topic_counts import event_time, window
from spark.silver import quarantine_table
from spark.silver.typed_changes import decode_changes, key_slots
from spark.specs import SilverSpec
from spark.table.needed_versions import Floor
from spark.table.spark_plans import any_of

_RANK = {name: i for i, name in enumerate(FATES)}
_RECORD = ("topic", "epoch", "partition", "offset")


def with_fate(session: SparkSession, spec: SilverSpec, cut: FoldsToCount, rows: DataFrame, earlier: DataFrame) -> DataFrame:
    """`rows` (bronze rows with `epoch`, `fold`, `window`, `kind`) as `window, kind, fate`.

    `earlier` are the rows that the ledger had counted before; looked at only where records came late.

        applied      it decided what its key's row is after the fold that took it (a delete: that the row is gone)
        superseded   a newer record of its key, or a TRUNCATE, was in the same fold
        older        the row had been decided by a newer record in an earlier fold: a replay, or an event that came late
        ignored      nothing to fold: tombstones behind deletes, messages, TRUNCATE where the table ignores it
        quarantined  silver could not fold it and holds it with the reason
        redriven     it was in quarantine and has been folded since
        dropped      it was in quarantine and was given up
        unaccounted  none of these: a fault, and never zero by construction
    """
    quarantined = None
    if cut.last.quarantined:
        state = sf.when(sf.col("dropped_at").isNotNull(), "dropped").when(sf.col("redriven_at").isNotNull(), "redriven")
        records = quarantine_table.table(session, spec)
        quarantined = records.select(*_RECORD, state.otherwise("quarantined").alias("held"))
    ignored = _is_ignored(spec)
    aside = (
        rows.join(sf.broadcast(quarantined), [*_RECORD], "left")
        if quarantined is not None
        else rows.withColumn("held", _nothing())
    )
    settled = sf.coalesce(sf.when(ignored, "ignored"), sf.col("held"))
    judged = aside.withColumn("settled", settled)
    done = judged.where(sf.col("settled").isNotNull()).select("window", "kind", sf.col("settled").alias("fate"))
    open_ = judged.where(sf.col("settled").isNull())
    if spec.keys:
        late = any(f.late_events for f in cut.folds)
        before = earlier.where(~ignored) if late else None
        if before is not None and quarantined is not None:
            before = before.join(sf.broadcast(quarantined.where("held <> 'redriven'")), [*_RECORD], "left_anti")
        decided = _fates_by_key(spec, cut, open_, before)
    elif spec.multiset:
        decided = _fates_by_partition(cut, judged.where(~ignored))
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


def _fates_by_key(spec: SilverSpec, cut: FoldsToCount, rows: DataFrame, earlier: DataFrame | None) -> DataFrame:
    keys = key_slots(spec)
    changes = _changes(spec, rows)
    if earlier is not None:
        changes = changes.unionByName(_of_late_keys(spec, cut, changes, _changes(spec, earlier)))
    fold = sf.col("fact")["fold"]
    events = changes.withColumns({"fold": fold, "said": sf.when(sf.col("_cdc_op") != "t", sf.col("_cdc_position"))})
    same_fold = Window.partitionBy(*keys, "fold")
    ordered = events.withColumn("newest", sf.max("said").over(same_fold))
    if earlier is not None:
        before = Window.partitionBy(*keys).orderBy("fold").rangeBetween(Window.unboundedPreceding, -1)
        ordered = ordered.withColumn("before", sf.max("said").over(before)).where(sf.col("fold") >= 0)
    else:
        ordered = ordered.withColumn("before", _nothing())
    position = sf.col("_cdc_position")
    truncated, folded_before = _truncates(spec, cut)
    fate = (
        sf.when(position.isNull(), "unaccounted")
        .when(sf.col("_cdc_op") == "t", _of_truncate(cut))
        .when(position <= sf.coalesce(folded_before, sf.lit("")), "older")
        .when(position <= sf.col("before"), "older")
        .when(position <= sf.coalesce(truncated, sf.lit("")), "superseded")
        .when(position == sf.col("newest"), "applied")
        .otherwise("superseded")
    )
    fates = ordered.select("topic", "partition", "offset", "fact", fate.alias("fate"))
    if not spec.envelope.startswith("debezium"):
        # An event of these may change two rows; the record's fate is the better one.
        rank = sf.min(reduce(lambda e, n: e.when(sf.col("fate") == n, _RANK[n]), FATES, sf.when(sf.lit(False), -1)))
        fates = fates.groupBy("topic", "partition", "offset", "fact").agg(rank.alias("rank"))
        fates = fates.withColumn("fate", sf.get(sf.array(*map(sf.lit, FATES)), sf.col("rank")))
    return fates.select(sf.col("fact")["window"].alias("window"), sf.col("fact")["kind"].alias("kind"), "fate")


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
        x
        for key, positions in highest(cut).items()
        for x in (sf.lit(key), sf.array(*[sf.lit(v).cast("string") for v in positions]))
    ]
    placed = changes.withColumn("epoch", sf.col("fact")["epoch"])
    folded = sf.get(sf.create_map(*arrays)[place_of_record()], sf.col("fact")["fold"])
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
    matched = rows.join(there, "position", "left")
    fate = (
        sf.when(sf.col("op").eqNullSafe("t"), _of_truncate_row(cut))
        .when(sf.col("position").isNull(), "unaccounted")
        .when(sf.col("there"), "applied")
        .otherwise("older")
    )
    return matched.select("window", "kind", fate.alias("fate"))


def _fates_by_partition(cut: FoldsToCount, rows: DataFrame) -> DataFrame:
    """Of a multiset every event counts that is not `settled`, unless its place had been passed in its partition, or a snapshot or
    TRUNCATE replaces it. At the last place that had been passed it is a replay where it follows one."""
    before = Window.partitionBy("topic", "epoch", "partition").orderBy("offset").rangeBetween(Window.unboundedPreceding, -1)
    position, at = sf.col("position"), without_offset(sf.col("position"))
    folded = sf.get(_by_place({key: sf.array(*map(_text, positions)) for key, positions in highest(cut).items()}), sf.col("fold"))
    marked = rows.withColumn("passed", without_offset(sf.greatest(sf.max("position").over(before), folded)))
    last = without_offset(_by_place({key: _text(last_position) for key, last_position in last_counted(cut).items()}))
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
    return sf.create_map(*[x for key, value in values.items() for x in (sf.lit(key), value)])[place_of_record()]


def _of_truncate_row(cut: FoldsToCount) -> Expression:
    newest = cut.last.truncated
    if newest is None:
        return sf.lit("unaccounted")
    position = sf.col("position")
    return sf.when(position == newest, "applied").when(position < newest, "superseded").otherwise("unaccounted")


def slice_rows(session: SparkSession, spec: SilverSpec, cut: FoldsToCount) -> tuple[DataFrame, DataFrame]:
    """Every bronze row of the slice, and every row before it, with `epoch, fold, window, kind, event_at`.

    Raises:
        BronzeExpiredError: rows are asked for that bronze has no more.
    """
    rows = _rows(session, spec, cut)
    numbered = rows.withColumns(
        {"fold": fold_number(cut), "window": window(), "kind": kind(sf.col("op"), sf.col("value")), "event_at": event_time()}
    )
    return numbered.where(_newer(cut) & (sf.col("fold") >= 0)), numbered.where(sf.col("fold") == -1)


def _rows(session: SparkSession, spec: SilverSpec, cut: FoldsToCount) -> DataFrame:
    """Those of the table: rows before the slice are looked at only where events of keys came late."""
    version = cut.last.bronze_version
    if not has_rows_of(table_floors(spec), cut):
        return all_rows(session, spec, version)
    rows = rows_in_log(session, spec, version)
    if not (spec.keys and any(fold.late_events for fold in cut.folds)):
        return rows
    return rows if _is_above_gone(session, spec, cut, rows) else all_rows(session, spec, version)


def _is_above_gone(session: SparkSession, spec: SilverSpec, cut: FoldsToCount, rows: DataFrame) -> bool:
    """Whether no record of the slice is as old as what is gone: whatever decides that one is older then is in the log."""
    gone = highest_gone(spec)
    if gone is None:
        return False
    counted = rows.where(_newer(cut) & (fold_number(cut) >= 0))
    return counted.where(sf.col("position") <= gone).isEmpty()


def has_rows_of(floors: Mapping[str, Floor], cut: FoldsToCount) -> bool:
    """Whether bronze still holds what is to be counted: all that is gone was counted before."""
    counted = cut.start.folded if cut.start else {}
    return all(
        topic in counted and floor.is_within(counted[topic].epoch, counted[topic].positions) for topic, floor in floors.items()
    )


def _newer(cut: FoldsToCount) -> Expression:
    """Something that the statistics of files can be compared with: the lowest offset of each topic."""
    if cut.start is None:
        return sf.lit(True)
    lowest: dict[str, int] = {}
    for key, offsets in ends(cut).items():
        topic = key.rsplit("/", 2)[0]
        lowest[topic] = min(offsets[0], lowest.get(topic, offsets[0]))
    return any_of([(sf.col("topic") == t) & (sf.col("offset") >= o) for t, o in lowest.items()])


def count_windows(rows: DataFrame, cut: FoldsToCount, appended: Expression) -> DataFrame:
    """Records by window and kind: `bronze`, and sums and maxima of milliseconds in each hop."""
    folded_at = by_fold([f.at for f in cut.folds], sf.col("fold"))
    hops = {
        "capture": _ms(sf.col("source_ts"), sf.col("timestamp")),
        "bronze": _ms(sf.col("timestamp"), appended),
        "silver": _ms(appended, folded_at),
    }
    after_end = sf.unix_millis("timestamp") - (sf.col("window") + WINDOW) * 1000
    return rows.groupBy("window", "kind").agg(
        sf.count("*").alias("bronze"),
        # A record without an event time has Kafka's, which must not close windows of events.
        sf.max(sf.when(~sf.col("kind").isin(TOMBSTONE, UNKNOWN), sf.unix_micros("event_at"))).alias("newest"),
        sf.max(sf.greatest(after_end, sf.lit(0))).alias("late_by_ms_max"),
        *[e for hop, ms in hops.items() for e in (sf.count(ms).alias(f"{hop}_n"), sf.sum(ms).alias(f"{hop}_ms_sum"))],
        *[sf.max(ms).alias(f"{hop}_ms_max") for hop, ms in hops.items()],
    )


def _ms(start: Expression, end: Expression) -> Expression:
    return sf.unix_millis(end) - sf.unix_millis(start)


def fates(session: SparkSession, spec: SilverSpec, cut: FoldsToCount, rows: DataFrame, earlier: DataFrame) -> DataFrame:
    """Records by window, kind and fate, in `n`."""
    judged = with_fate(session, spec, cut, rows, earlier)
    return judged.groupBy("window", "kind", "fate").agg(sf.count("*").alias("n"))
