"""A history made a second time, from all of bronze and by another way than the job's: what the history is compared with.

The job (spark.history.job) goes on from the newest version of each key, and groups events into versions. Here each key's whole
life is walked in position order: an event that makes or keeps a row is a state, a delete or an end of the table's (TRUNCATE,
epoch, another table of its name) closes a life, and a version is a run of equal states within one life. What both have
in common is how a record is read: its columns, the rows that it takes from other keys, whether it can be folded at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession, Window, WindowSpec
from pyspark.sql import functions as sf

from spark.bronze.held import count_all
from spark.bronze.slice import table_events
from spark.delta.commits import Folded
from spark.delta.identifiers import quote
from spark.delta.plan_depth import cut_plan
from spark.delta.topic_commits import all_schema_ids
from spark.history.tail import may_have_truncates, truncate_positions
from spark.positions.layout import epoch_prefix
from spark.schema import generation
from spark.schema.column_ledger import DROPPED, ColumnLedger, place_of
from spark.schema.evolution import read_ledger, read_tracked
from spark.schema.fold_rules import FoldRules, rule_changes
from spark.silver import quarantine
from spark.silver.changes import decode_changes, key_slots, slot
from spark.silver.fold import POSITION, mark_problems, rest_slots
from spark.silver.key_changes import complete_creates
from spark.specs import META, VALID, SilverSpec


@dataclass(frozen=True)
class Again:
    """A history to make again: its own spec, what it had folded, and a bronze version that holds that much of the table.

    `parts`: the keys whose hash leaves `part` when divided by it.
    """

    spec: SilverSpec
    folded: Folded
    bronze_version: int
    part: int = 0
    parts: int = 1


def as_folded(session: SparkSession, spec: SilverSpec) -> tuple[SilverSpec, ColumnLedger | None]:
    """The spec with the columns that the table's ledger has, not those that the source may have by now; nothing is altered."""
    ledger = read_ledger(session, spec)
    if ledger is None:
        return spec, None
    # The rows at once with the columns: today's `where` may ask for one that the ledger has not.
    own = replace(spec, columns=ledger.columns, keys=ledger.keys or spec.keys, where=ledger.where)
    own = replace(own, generation=ledger.generation, orders=ledger.orders)
    return replace(own, renewed=ledger.renewed or place_of(ledger.generation, epoch_prefix(0)) or ""), ledger


def records_lost(session: SparkSession, asked: Again) -> int:
    """How many of the records that the history has folded neither bronze holds any more nor the backup has of it."""
    held = count_all(session, asked.spec, asked.bronze_version)
    return max(0, sum(state.all_records for state in asked.folded.topics.values()) - held)


def other_columns_tracked(session: SparkSession, spec: SilverSpec, ledger: ColumnLedger | None) -> str:
    """How the declared columns whose changes make a version differ from those that did until now; empty: in nothing.

    Columns that came or went since are left out: of an older version they say nothing.
    """
    tracked = read_tracked(session, spec.path)
    if ledger is None or tracked is None:
        return ""
    born = {c.column for entry in ledger.history[:1] for c in entry.changes}
    both = born & {c.name for c in spec.columns if not c.event_field.startswith(DROPPED)} - {*spec.keys}
    made_by = ledger.made_by or (FoldRules(track_history=tuple(tracked)),)
    changes = rule_changes(made_by, FoldRules(track_history=spec.track_history), both)
    return next((f"were {change.was}, and are {change.now} now" for change in changes), "")


def in_part(spec: SilverSpec, part: int, parts: int) -> Expression:
    """Whether the row's key belongs to the part."""
    return sf.lit(True) if parts == 1 else sf.pmod(sf.xxhash64(*key_slots(spec)), sf.lit(parts)) == part


def versions_again(session: SparkSession, asked: Again) -> DataFrame:
    """The versions: c0.., the meta columns, `_valid_from`, `_valid_to`, `_is_current`."""
    spec = asked.spec
    ids = all_schema_ids(asked.folded.topics.values())
    everything = decode_changes(table_events(session, spec, asked.bronze_version), replace(spec, schema_ids=ids))
    if quarantine.exists(session, spec):
        everything = quarantine.without_dropped(session, spec, everything)
    everything = cut_plan(everything)
    ends = _ends(session, asked, everything)
    own = everything.where("_cdc_op IS DISTINCT FROM 't'").where(in_part(spec, asked.part, asked.parts))
    events = mark_problems(complete_creates(own, everything, spec), spec, from_start=True).where(sf.col("problem").isNull())
    return _versions(_states(cut_plan(events), spec, ends), spec)


def _ends(session: SparkSession, asked: Again, changes: DataFrame) -> list[str]:
    """The positions at which every row of the table ends, lowest first."""
    spec, topics = asked.spec, asked.folded.topics
    ends = {epoch_prefix(epoch) for state in topics.values() for epoch in range(1, state.epoch + 1)}
    ends |= {*generation.drops(spec)}
    if (ledger := read_ledger(session, spec)) is not None:
        ends |= {*generation.first_snapshots(table_events(session, spec, asked.bronze_version), spec, ledger)}
    return sorted(ends | {*(truncate_positions(changes) if may_have_truncates(spec, topics) else ())})


def _states(events: DataFrame, spec: SilverSpec, ends: Sequence[str]) -> DataFrame:
    """The events that leave a row, each with the row whole, its `life`, and `over`: where this life ends after it."""
    keys = key_slots(spec)
    walk = Window.partitionBy(*keys).orderBy(POSITION)
    so_far = walk.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    ahead = walk.rowsBetween(1, Window.unboundedFollowing)
    death = sf.col("_cdc_op") == "d"
    limits = sf.array(*map(sf.lit, ends)) if ends else sf.lit(None).cast("array<string>")
    ended = sf.size(sf.filter(limits, lambda end: end < sf.col(POSITION))) if ends else sf.lit(0)
    over = sf.array_min(sf.filter(limits, lambda end: end > sf.col(POSITION))) if ends else sf.lit(None).cast("string")
    lives = events.withColumns(
        {
            "deaths": sf.count_if(death).over(so_far),
            "ended": ended,
            "over": sf.least(over, sf.min(sf.when(death, sf.col(POSITION))).over(ahead)),
        }
    ).where(~death)
    life = Window.partitionBy(*keys, "deaths", "ended").orderBy(POSITION)
    within = life.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return lives.withColumns({name: _newest_said(name).over(within)["value"] for name in rest_slots(spec)})


def _newest_said(name: str) -> Expression:
    """The newest value that an event has said of the column."""
    unsaid = sf.coalesce(sf.array_contains("absent", int(name[1:])), sf.lit(False))
    return sf.last(sf.when(~unsaid, sf.struct(sf.col(name).alias("value"))), ignorenulls=True)


def _versions(states: DataFrame, spec: SilverSpec) -> DataFrame:
    keys, rest = key_slots(spec), rest_slots(spec)
    life = Window.partitionBy(*keys, "deaths", "ended").orderBy(POSITION)
    now = sf.struct(*[sf.col(name) for name in tracking_slots(spec)]) if tracking_slots(spec) else sf.struct(sf.lit(0))
    before = sf.lag(now).over(life)
    same = (sf.row_number().over(life) > 1) & now.eqNullSafe(before)
    grouped = (
        _in_runs(states, life, same)
        .groupBy(*keys, "deaths", "ended", "number")
        .agg(
            sf.min(POSITION).alias("_valid_from"),
            sf.max_by(sf.struct(*rest, *META, "over"), POSITION).alias("last"),
        )
    )
    follows = Window.partitionBy(*keys, "deaths", "ended").orderBy("number")
    until = sf.coalesce(sf.lead("_valid_from").over(follows), sf.col("last")["over"])
    told = grouped.withColumn("_valid_to", until)
    named = [sf.col("last").getField(name).alias(name) for name in (*rest, *META)]
    return told.select(*keys, *named, "_valid_from", "_valid_to", sf.col("_valid_to").isNull().alias("_is_current"))


def tracking_slots(spec: SilverSpec) -> list[str]:
    """Internal names of the columns whose changes make a version."""
    own = key_slots(spec)
    told = {slot(i): c.name for i, c in enumerate(spec.columns) if slot(i) not in own and not c.event_field.startswith(DROPPED)}
    return [name for name, column in told.items() if column in spec.track_history] or [*told]


def alike_as_one(versions: DataFrame, spec: SilverSpec, columns: Sequence[str]) -> DataFrame:
    """Versions (slots) of a life that follow each other and differ in none of these columns (slots) are one.

    Whoever cannot read an old column any more cannot tell which of them it made; the newest of them says what they were.
    """
    keys, rest = key_slots(spec), rest_slots(spec)
    order = Window.partitionBy(*keys).orderBy("_valid_from")
    now = sf.struct(sf.lit(0), *[sf.col(name) for name in columns])
    goes_on = sf.lag("_valid_to").over(order).eqNullSafe(sf.col("_valid_from")) & now.eqNullSafe(sf.lag(now).over(order))
    last = sf.max_by(sf.struct(*rest, *META, "_valid_to", "_is_current"), sf.col("_valid_from")).alias("last")
    grouped = _in_runs(versions, order, goes_on).groupBy(*keys, "number").agg(sf.min("_valid_from").alias("_valid_from"), last)
    return grouped.select(*keys, "_valid_from", "last.*")


def _in_runs(rows: DataFrame, order: WindowSpec, goes_on: Expression) -> DataFrame:
    """Each row with the `number` of its run: in that order, a row that does not go on begins one."""
    so_far = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return rows.withColumn("begins", ~goes_on).withColumn("number", sf.count_if("begins").over(so_far))


def as_slots(rows: DataFrame, spec: SilverSpec) -> DataFrame:
    """A history's rows under the names that `versions_again` gives."""
    columns = [sf.col(quote(c.name)).alias(slot(i)) for i, c in enumerate(spec.columns)]
    return rows.select(*columns, *META, *VALID)
