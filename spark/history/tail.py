"""What a history goes on from: the new events behind the newest version of each of their keys, as the history has it.

    events        new events, and per key the newest version as an event at the position of what made it; where it has
                  ended, a delete at the position where it did
    again         keys that must be folded from all of bronze instead

Going on is right where every new event of a key lies above all that the history says of it. A key is folded again

- if an event of it is late (spark.silver.late), or at or below the newest TRUNCATE, or its own newest version: a
  version does not tell of the events within it that changed nothing tracked, nor which columns an event lacked;
- if one of these events cannot be folded, or lies behind a record in quarantine that leaves its row in doubt;
- if a record of it was re-driven or given up since the history's last run, with new events or without;
- if it takes a row from another key (spark.silver.key_changes), or one that had to wait for its row to come is told now.

All keys are, if a TRUNCATE lies below something that was delivered before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark.delta.cluster import compute_once
from spark.delta.commits import Folded
from spark.delta.conditions import all_of
from spark.delta.identifiers import quote
from spark.delta.topic_commits import CommittedTopic
from spark.positions.layout import epoch_prefix
from spark.schema import generation
from spark.silver import quarantine
from spark.silver.batch import SilverRun
from spark.silver.changes import key_slots
from spark.silver.fold import POSITION, lacking, not_of_keys, of_keys, rest_slots
from spark.silver.key_changes import keys_deleted_by
from spark.silver.late import late
from spark.specs import META, SilverSpec


@dataclass(frozen=True)
class Tail:
    """What there is to go on from; see the module. `truncates` are the new ones, lowest first."""

    events: DataFrame
    again: DataFrame | None
    all_keys: bool
    refolded: int
    truncates: list[str]


def may_have_truncates(spec: SilverSpec, topics: Mapping[str, CommittedTopic]) -> bool:
    """Whether there may be TRUNCATEs that the table obeys."""
    return spec.truncate in ("apply", "soft") and any(state.by_op.get("t") for state in topics.values())


def read_tail(work: SilverRun, before: Folded) -> Tail:
    """What is new is read and decoded once, here."""
    # A checkpoint, since a cached frame is sent with all that it was made of: Spark Connect reads plans of up to 100 levels, and
    # those of a table whose columns have changed were deeper.
    new, spec = work.changes.transform(compute_once), work.spec
    truncates = truncate_positions(new) if may_have_truncates(spec, work.committed.of_table(spec.table)) else []
    begun = generation.generation_start(work.events, spec, before.truncated)
    renewed = [begun, *generation.drops(spec, after=before.truncated or "")] if begun else []
    truncates = sorted({*truncates, *_epochs(work, before), *renewed})
    rows = new.where("_cdc_op IS DISTINCT FROM 't'")
    newest = _newest(work, rows.select(*key_slots(spec)).distinct()).transform(compute_once)
    again = _late(rows, newest, before, spec)
    if quarantine.exists(work.session, spec):
        again = again.unionByName(_in_doubt(work, rows)).unionByName(_keys_settled_since(work, before))
    if before.waiting:
        again = again.unionByName(keys_deleted_by(rows, before.waiting, spec))
    again = again.distinct().transform(compute_once)
    count = again.count()
    # The history of an earlier release does not say which TRUNCATEs it has seen.
    unknown = before.truncated is None and may_have_truncates(spec, before.topics)
    all_keys = unknown or any(t <= before.highest for t in truncates)
    events = _events(newest, spec, rows).unionByName(rows.withColumn("began", sf.lit(None).cast("string")))
    return Tail(
        events=not_of_keys(events, again, spec) if count else events,
        again=again if count or all_keys else None,
        all_keys=all_keys,
        refolded=count,
        truncates=truncates,
    )


def _epochs(work: SilverRun, before: Folded) -> list[str]:
    """The begins of epochs that the history has not seen: with each, the whole table is read again."""
    topics = work.committed.of_table(work.spec.table)
    spans = [(before.topics[t].epoch, state.epoch) for t, state in topics.items() if t in before.topics]
    return [epoch_prefix(epoch) for was, now in spans for epoch in range(was + 1, now + 1)]


def truncate_positions(changes: DataFrame) -> list[str]:
    """Where the TRUNCATEs among the changes stand, lowest first."""
    rows = changes.where((sf.col("_cdc_op") == "t") & sf.col("problem").isNull()).select(POSITION).distinct().collect()
    return sorted(row[0] for row in rows)


def _newest(work: SilverRun, keys: DataFrame) -> DataFrame:
    """The newest version of each of these keys, in the columns of changes."""
    spec = work.spec
    there = work.session.read.format("delta").load(spec.path)
    columns = [sf.col(quote(c.name)).alias(f"c{i}") for i, c in enumerate(spec.columns)]
    held = of_keys(there.select(*columns, *META, "_valid_from", "_valid_to"), keys, spec)
    slots = key_slots(spec)
    rest = [n for n in held.columns if n not in slots]
    newest = held.groupBy(*slots).agg(sf.max_by(sf.struct(*rest), "_valid_from").alias("newest"))
    return newest.select(*slots, *[sf.col("newest").getField(n).alias(n) for n in rest])


def _late(rows: DataFrame, newest: DataFrame, before: Folded, spec: SilverSpec) -> DataFrame:
    """The keys with an event that what the history says does not suffice for."""
    keys = key_slots(spec)
    known = sf.greatest(POSITION, "_valid_to").alias("known")
    ends = newest.select(*[sf.col(k).alias(f"e_{k}") for k in keys], known)
    told = rows.join(ends, all_of([sf.col(k).eqNullSafe(sf.col(f"e_{k}")) for k in keys]), "left")
    above = sf.coalesce(sf.col(POSITION) > sf.greatest(sf.lit(before.truncated or ""), "known"), sf.lit(False))
    return told.where(late(before) | ~above | sf.col("problem").isNotNull() | lacking()).select(*keys)


def _in_doubt(work: SilverRun, rows: DataFrame) -> DataFrame:
    """The keys with an event that a record in quarantine stands before, with nothing between that says all of the row."""
    session, spec = work.session, work.spec
    marked = rows.withColumn("row_key", quarantine.row_key(spec)).join(quarantine.doubts(session, spec), "row_key")
    return marked.where(sf.col(POSITION) <= sf.col("until")).select(*key_slots(spec))


def _keys_settled_since(work: SilverRun, before: Folded) -> DataFrame:
    """The keys of the records that were re-driven or given up since."""
    session, spec = work.session, work.spec
    records = quarantine.settlements_after(session, spec, before.settled).transform(compute_once)
    if records.isEmpty():
        return work.changes.select(*key_slots(spec)).limit(0)
    return quarantine.at(work.all_changes, records).select(*key_slots(spec))


def _events(newest: DataFrame, spec: SilverSpec, like: DataFrame) -> DataFrame:
    """Newest versions as events: what made them, and the delete of those that have ended."""
    types = {f.name: f.dataType for f in like.schema.fields}
    own = {"topic": sf.lit(""), "partition": sf.lit(-1), "offset": sf.lit(-1), "began": sf.col("_valid_from")}
    none = {n: sf.lit(None) for n in ("snapshot", "absent", "problem")}
    given = {**own, **none}

    def event(**other: Expression) -> list[Expression]:
        told = {**given, **other}
        return [told.get(n, sf.col(n)).cast(types.get(n, "string")).alias(n) for n in (*like.columns, "began")]

    gone = {n: sf.lit(None) for n in (*rest_slots(spec), "began")}
    ended = newest.where("_valid_to IS NOT NULL").select(*event(**gone, _cdc_op=sf.lit("d"), _cdc_position=sf.col("_valid_to")))
    return newest.select(*event()).unionByName(ended)
