"""Whether a history (SCD2) is right: three proofs of one version of it, each by key and version.

Its current versions are silver's rows; a key's versions follow one another without overlap, and only the last is
current; and all versions are those that bronze makes when it is folded again by another way than the job's: each
key's life is walked in position order, and a version is a run of equal states within one life. Both ways share how a
record is read, so a fault there shows in neither. What bronze no longer holds cannot be proven.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Row, SparkSession, Window, WindowSpec
from pyspark.sql import functions as sf

from spark.bronze.change_log import count_all, table_events
from spark.errors import quantity
from spark.events.positions import epoch_prefix
from spark.proof.row_text import RowText
from spark.silver import quarantine_table, table_generation
from spark.silver.column_ledger import DROPPED, ColumnLedger, FoldRules, place_of, rule_changes
from spark.silver.history_versions import may_have_truncates, truncate_positions
from spark.silver.key_changes import complete_creates
from spark.silver.newest_event import POSITION, mark_problems, rest_slots
from spark.silver.schema_difference import rebuild_command
from spark.silver.schema_evolution import read_ledger
from spark.silver.typed_changes import decode_changes, key_slots, slot
from spark.specs import DELETED, META, VALID, Column, SilverSpec
from spark.table import spark_plans
from spark.table.commit_metadata import Folded
from spark.table.identifiers import quote
from spark.table.spark_failures import restartable
from spark.table.spark_plans import all_of, any_of, cut_plan
from spark.table.spark_session import compute_once
from spark.table.topic_commits import all_schema_ids
from spark.values.canonical_forms import Form
from spark.values.column_forms import form


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


def records_lost(session: SparkSession, again: Again) -> int:
    """How many of the records that the history has folded neither bronze holds any more nor the backup has of it."""
    still_there = count_all(session, again.spec, again.bronze_version)
    return max(0, sum(state.all_records for state in again.folded.topics.values()) - still_there)


def other_columns_tracked(session: SparkSession, spec: SilverSpec, ledger: ColumnLedger | None) -> str:
    """How the declared columns whose changes make a version differ from those that did until now; empty: in nothing.

    Columns that came or went since are left out: of an older version they say nothing.
    """
    if ledger is None:
        return ""
    born = {c.column for entry in ledger.history[:1] for c in entry.changes}
    both = born & {c.name for c in spec.columns if not c.event_field.startswith(DROPPED)} - {*spec.keys}
    changes = rule_changes(ledger.made_by, FoldRules(track_history=spec.track_history), both)
    return next((f"were {change.was}, and are {change.now} now" for change in changes), "")


def in_part(spec: SilverSpec, part: int, parts: int) -> Expression:
    """Whether the row's key belongs to the part."""
    return sf.lit(True) if parts == 1 else sf.pmod(sf.xxhash64(*key_slots(spec)), sf.lit(parts)) == part


def versions_again(session: SparkSession, again: Again) -> DataFrame:
    """The versions: c0.., the meta columns, `_valid_from`, `_valid_to`, `_is_current`.

    The history is made a second time by another way than the job's. The job (spark.silver.history_job) goes on from the
    newest version of each key, and groups events into versions. Here each key's whole life is walked in position order:
    an event that makes or keeps a row is a state, a delete or an end of the table's (TRUNCATE, epoch, another table of
    its name) closes a life, and a version is a run of equal states within one life. What both have in common is how a
    record is read: its columns, the rows that it takes from other keys, whether it can be folded at all.
    """
    spec = again.spec
    ids = all_schema_ids(again.folded.topics.values())
    everything = decode_changes(table_events(session, spec, again.bronze_version), replace(spec, schema_ids=ids))
    if quarantine_table.exists(session, spec):
        everything = quarantine_table.without_dropped(session, spec, everything)
    everything = cut_plan(everything)
    ends = _ends(session, again, everything)
    own = everything.where("_cdc_op IS DISTINCT FROM 't'").where(in_part(spec, again.part, again.parts))
    events = mark_problems(complete_creates(own, everything, spec), spec).where(sf.col("problem").isNull())
    return _versions(_states(cut_plan(events), spec, ends), spec)


def _ends(session: SparkSession, again: Again, changes: DataFrame) -> list[str]:
    """The positions at which every row of the table ends, lowest first."""
    spec, topics = again.spec, again.folded.topics
    ends = {epoch_prefix(epoch) for state in topics.values() for epoch in range(1, state.epoch + 1)}
    ends |= {*table_generation.drops(spec)}
    if (ledger := read_ledger(session, spec)) is not None:
        ends |= {*table_generation.first_snapshots(table_events(session, spec, again.bronze_version), spec, ledger)}
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

    def newest_said(name: str) -> Expression:
        unsaid = sf.coalesce(sf.array_contains("absent", int(name[1:])), sf.lit(False))
        return sf.last(sf.when(~unsaid, sf.struct(sf.col(name).alias("value"))), ignorenulls=True)

    return lives.withColumns({name: newest_said(name).over(within)["value"] for name in rest_slots(spec)})


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
    versions = grouped.withColumn("_valid_to", until)
    named = [sf.col("last").getField(name).alias(name) for name in (*rest, *META)]
    return versions.select(*keys, *named, "_valid_from", "_valid_to", sf.col("_valid_to").isNull().alias("_is_current"))


def tracking_slots(spec: SilverSpec) -> list[str]:
    """Internal names of the columns whose changes make a version."""
    own = key_slots(spec)
    columns = {
        slot(i): c.name for i, c in enumerate(spec.columns) if slot(i) not in own and not c.event_field.startswith(DROPPED)
    }
    return [name for name, column in columns.items() if column in spec.track_history] or [*columns]


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


SILVER, INTERVALS, BRONZE = "silver", "intervals", "bronze"
_OF_SILVER = ("no current version of a row of silver", "current, and silver has no such row", "differs from silver's row")
_OF_BRONZE = ("missing", "phantom", "differs")
"""What a row is called that is wanted and not there, there and not wanted, and another."""
_UNSETTLED = "records were re-driven or given up since the history was folded: materialize silver, then run it again"
MAX_KEYS = 1000
"""More keys are counted, not told."""


@dataclass(frozen=True)
class Proof:
    """What is to be proven: the history's version, and silver's where it had folded the same.

    `again.folded` is what both have folded.
    """

    again: Again
    version: int
    silver_path: str
    silver_version: int


@dataclass(frozen=True)
class Damage:
    """One key whose versions are wrong: what is, at which versions (their `_valid_from`), and which proofs say so.

    `columns` are those that differ, the history's own (`_valid_to`) among them.
    """

    key: str
    kinds: tuple[str, ...]
    versions: tuple[str, ...]
    columns: tuple[str, ...]
    proofs: tuple[str, ...]


@dataclass(frozen=True)
class Proven:
    """The answer: `keys` that are wrong, at most MAX_KEYS of them told; why bronze was not folded again (empty: it was)."""

    versions: int
    rows: int
    keys: int
    damages: tuple[Damage, ...]
    not_folded: str
    not_compared: Mapping[str, str] = field(default_factory=dict)


@restartable
def prove(session: SparkSession, proof: Proof) -> Proven:
    """Read the history, silver and bronze; nothing is written.

        silver      its current versions are silver's rows, both read where they have folded the same
        intervals   a key's versions follow one another: none empty, none over another, one current at most and that the last
        bronze      all versions are those that bronze makes when it is folded again from its begin (versions_again)

    A gap between two versions is a delete's; that it is one, only bronze can tell.
    """
    spec, ledger = as_folded(session, proof.again.spec)
    again = replace(proof.again, spec=spec)
    spark_plans.suit(session, events=sum(state.all_records for state in again.folded.topics.values()))
    there = versions_there(session, again, proof.version).transform(compute_once)
    left_out: dict[str, str] = {}
    findings = [_intervals(there, spec)]
    # Silver heeds what was decided in the quarantine first.
    unsettled = quarantine_table.last_settlement(session, spec) > again.folded.settled
    if not unsettled:
        alike = _alike(ledger, read_ledger(session, replace(spec, path=proof.silver_path)), spec)
        left_out |= {c.name: why for c, why in alike if why}
        findings.append(_silver(session, proof, again, there, [c for c, why in alike if not why]))
    not_folded = _UNSETTLED if unsettled else why_not_folded(session, again)
    if not not_folded:
        columns, unsure = foldable(spec, ledger)
        left_out |= unsure
        findings.append(_bronze(there, versions_again(session, again), spec, columns))
    damage = reduce(DataFrame.unionByName, findings).drop(*key_slots(spec)).transform(compute_once)
    keys = damage.select("key").distinct()
    count = keys.count()
    shown = damage.join(sf.broadcast(keys.orderBy("key").limit(MAX_KEYS)), "key") if count > MAX_KEYS else damage
    figures = there.agg(sf.count("*").alias("versions"), sf.count_if("_is_current").alias("rows")).first()
    assert figures is not None
    return Proven(figures.versions, figures.rows, count, _by_key(shown.collect() if count else []), not_folded, left_out)


def versions_there(session: SparkSession, again: Again, version: int) -> DataFrame:
    """The part's versions as the history has them, in slots."""
    rows = session.read.format("delta").option("versionAsOf", version).load(again.spec.path)
    columns = [sf.col(quote(c.name)).alias(slot(i)) for i, c in enumerate(again.spec.columns)]
    return rows.select(*columns, *META, *VALID).where(in_part(again.spec, again.part, again.parts))


def why_not_folded(session: SparkSession, again: Again) -> str:
    """What stands in the way of folding the whole history again; empty: nothing."""
    if others := other_columns_tracked(session, again.spec, read_ledger(session, again.spec)):
        return f"the columns whose changes make a version {others}: build it anew: {rebuild_command(again.spec)}"
    lost = records_lost(session, again)
    folded = sum(state.all_records for state in again.folded.topics.values())
    if lost:
        return f"bronze lacks {lost:,} of the {quantity(folded, 'record', form=',')} that the history was made of"
    return _UNSETTLED if quarantine_table.last_settlement(session, again.spec) > again.folded.settled else ""


def foldable(spec: SilverSpec, ledger: ColumnLedger | None) -> tuple[list[Column], dict[str, str]]:
    """The columns whose old values events tell, and why the others' do not."""
    anew = {c.column for e in ledger.history for c in e.changes if c.kind == "add" and c.was} if ledger else set()
    unfilled = {*ledger.gaps_by_column()} if ledger else set()
    columns, without = [], {}
    for column in spec.columns:
        if column.event_field.startswith(DROPPED):
            continue
        if column.name in anew | unfilled:
            without[column.name] = "events from before do not tell its value: it was added later" + (
                ", in place of another of its name" if column.name in anew else ", with a default that is not known"
            )
        else:
            columns.append(column)
    return columns, without


def wrong_keys(session: SparkSession, again: Again, there: DataFrame, made: DataFrame) -> DataFrame:
    """The keys (slots) whose versions are not those that bronze makes, or do not follow one another."""
    keys = key_slots(again.spec)
    columns, _ = foldable(again.spec, read_ledger(session, again.spec))
    wrong = _intervals(there, again.spec).select(*keys)
    return wrong.unionByName(_bronze(there, made, again.spec, columns).select(*keys)).distinct()


def key_text(spec: SilverSpec) -> Expression:
    """As a comparison of silver writes it; as JSON where the key has no text."""
    keys = {c.name: c for c in spec.columns if c.name in spec.keys}
    if all(isinstance(form(c), Form) for c in keys.values()):
        return RowText(spec).text(spec.keys)
    return sf.coalesce(quarantine_table.row_key(spec), sf.lit("?"))


def _findings(rows: DataFrame, spec: SilverSpec, proof: str) -> DataFrame:
    """Of the rows with a `kind`: key (slots and text), proof, what is wrong, at which version, and the columns `unlike`."""
    wrong = rows.where(sf.col("kind").isNotNull())
    version = sf.col("_valid_from").alias("version")
    columns = sf.col("unlike").cast("array<string>").alias("columns")
    return wrong.select(*key_slots(spec), key_text(spec).alias("key"), sf.lit(proof).alias("proof"), "kind", version, columns)


def _intervals(there: DataFrame, spec: SilverSpec) -> DataFrame:
    order = Window.partitionBy(*key_slots(spec)).orderBy("_valid_from", sf.col("_valid_to").asc_nulls_last())
    begin, end, position = sf.col("_valid_from"), sf.col("_valid_to"), sf.col("_cdc_position")
    seen = there.withColumn("next", sf.lead("_valid_from").over(order))
    kind = (
        sf.when(begin.isNull(), "begins nowhere")
        .when(end <= begin, "ends before it begins")
        .when(begin == sf.col("next"), "twice")
        .when(end.isNull() & sf.col("next").isNotNull(), "current before another")
        .when(end > sf.col("next"), "over the next")
        .when(~sf.col("_is_current").eqNullSafe(end.isNull()), "its mark of being current is wrong")
        .when((position < begin) | (position >= end), "made outside of its interval")
    )
    return _findings(seen.withColumns({"kind": kind, "unlike": sf.array(sf.lit("_valid_to"))}), spec, INTERVALS)


def _alike(ledger: ColumnLedger | None, silver: ColumnLedger | None, spec: SilverSpec) -> list[tuple[Column, str]]:
    """Each column of the history's, and why silver's of that name is not to be compared with it (empty: it is)."""
    if ledger is None or silver is None:
        return [(c, "") for c in spec.columns]
    theirs = {c.name: (c.event_field, c.source_type, c.since) for c in silver.columns}
    own = {c.name: (c.event_field, c.source_type, c.since) for c in ledger.columns}
    why = "silver and its history have met a change of its type or name at different times"
    # What a rename leaves behind says nothing of its own.
    columns = [c for c in spec.columns if not c.event_field.startswith(DROPPED)]
    return [(c, "" if theirs.get(c.name) == own[c.name] else why) for c in columns]


def _silver(session: SparkSession, proof: Proof, again: Again, there: DataFrame, columns: Sequence[Column]) -> DataFrame:
    spec = again.spec
    table = session.read.format("delta").option("versionAsOf", proof.silver_version).load(proof.silver_path)
    if DELETED in table.columns:
        table = table.where(~sf.coalesce(sf.col(DELETED), sf.lit(False)))
    places = {c.name: slot(i) for i, c in enumerate(spec.columns)}
    names = [places[c.name] for c in columns]
    rows = table.select(*[sf.col(quote(n)).alias(s) for n, s in places.items() if n in {*spec.keys, *(c.name for c in columns)}])
    rows = rows.where(in_part(spec, again.part, again.parts))
    current = there.where("_valid_to IS NULL")
    return _differing(current, rows, spec, SILVER, names, key_slots(spec))


def _bronze(there: DataFrame, made: DataFrame, spec: SilverSpec, columns: Sequence[Column]) -> DataFrame:
    places = {c.name: slot(i) for i, c in enumerate(spec.columns)}
    slots = [places[c.name] for c in columns]
    names = [*slots, *META, "_valid_to", "_is_current"]
    tracked = tracking_slots(spec)
    if not {*tracked} <= {*slots} or any(c.event_field.startswith(DROPPED) for c in spec.columns):
        # A change of a column that bronze no longer tells has made versions that bronze no longer makes.
        by = [name for name in tracked if name in slots]
        there, made = (alike_as_one(versions, spec, by) for versions in (there, made))
    return _differing(there, made, spec, BRONZE, names, [*key_slots(spec), "_valid_from"])


def _differing(
    there: DataFrame,
    expected: DataFrame,
    spec: SilverSpec,
    proof: str,
    names: Sequence[str],
    on: Sequence[str],
) -> DataFrame:
    """Rows on one side only, and those of which a column of `names` differs, with the columns `on` that tell rows apart."""
    kinds = _OF_BRONZE if proof == BRONZE else _OF_SILVER
    values = [n for n in names if n not in on]
    left = there.select(*on, *[n for n in ("_valid_from",) if n not in on], sf.struct(sf.lit(1), *values).alias("h"))
    right = expected.select(*[sf.col(n).alias(f"w_{n}") for n in on], sf.struct(sf.lit(1), *values).alias("w"))
    same = all_of([sf.col(n).eqNullSafe(sf.col(f"w_{n}")) for n in on])
    both = left.join(right, same, "full_outer")
    unlike = any_of([~sf.col("h")[n].eqNullSafe(sf.col("w")[n]) for n in values])
    here, there_ = sf.col("h").isNotNull(), sf.col("w").isNotNull()
    kind = sf.when(~here, kinds[0]).when(~there_, kinds[1]).when(unlike, kinds[2])
    shown = {slot(i): c.name for i, c in enumerate(spec.columns)}
    differing = sf.array(*[sf.when(~sf.col("h")[n].eqNullSafe(sf.col("w")[n]), sf.lit(shown.get(n, n))) for n in values])
    columns = sf.when(here & there_, sf.array_compact(differing)) if values else sf.lit(None)
    whole = both.withColumns({n: sf.when(here, sf.col(n)).otherwise(sf.col(f"w_{n}")) for n in on})
    return _findings(whole.withColumns({"kind": kind, "unlike": columns}), spec, proof)


def _by_key(rows: Sequence[Row]) -> tuple[Damage, ...]:
    by_key: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_key[row.key].append(row)
    return tuple(_damage(key, findings) for key, findings in sorted(by_key.items()))


def _damage(key: str, rows: Sequence[Row]) -> Damage:
    # What bronze says of a key is the whole of it; the other proofs saw its consequences.
    most = next(proof for proof in (BRONZE, INTERVALS, SILVER) if any(r.proof == proof for r in rows))
    own = [r for r in rows if r.proof == most]
    kinds = tuple(dict.fromkeys(r.kind for r in sorted(own, key=lambda r: r.version or "")))
    versions = tuple(sorted({r.version for r in own if r.version}))
    columns = tuple(sorted({c for r in own for c in r.columns or ()}))
    proofs = tuple(p for p in (BRONZE, INTERVALS, SILVER) if any(r.proof == p for r in rows))
    return Damage(key, kinds, versions, columns, proofs)
