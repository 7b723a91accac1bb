"""Whether a history (SCD2) is right: three proofs of one version of it, each by key and version.

    silver      its current versions are silver's rows, both read where they have folded the same
    intervals   a key's versions follow one another: none empty, none over another, one current at most and that the last
    bronze      all versions are those that bronze makes when it is folded again from its begin (spark.reconcile.history_again)

A gap between two versions is a delete's; that it is one, only bronze can tell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as sf

from spark.canonical.column_forms import form
from spark.canonical.form import Form
from spark.delta import plans
from spark.delta.cluster import compute_once
from spark.delta.conditions import all_of, any_of
from spark.delta.conflicts import restartable
from spark.delta.identifiers import quote
from spark.errors import quantity
from spark.reconcile import history_again
from spark.reconcile.history_again import Again, as_slots, in_part
from spark.reconcile.row_text import RowText
from spark.schema.column_ledger import DROPPED, ColumnLedger
from spark.schema.evolution import read_ledger
from spark.schema.policy import rebuild_command
from spark.silver import quarantine
from spark.silver.changes import key_slots, slot
from spark.specs import DELETED, META, Column, SilverSpec

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
def prove(session: SparkSession, asked: Proof) -> Proven:
    """Read the history, silver and bronze; nothing is written."""
    spec, ledger = history_again.as_folded(session, asked.again.spec)
    again = replace(asked.again, spec=spec)
    plans.suit(session, events=sum(state.all_records for state in again.folded.topics.values()))
    there = versions_there(session, again, asked.version).transform(compute_once)
    left_out: dict[str, str] = {}
    found = [_intervals(there, spec)]
    # Silver heeds what was decided in the quarantine first.
    unsettled = quarantine.last_settlement(session, spec) > again.folded.settled
    if not unsettled:
        alike = _alike(ledger, read_ledger(session, replace(spec, path=asked.silver_path)), spec)
        left_out |= {c.name: why for c, why in alike if why}
        found.append(_silver(session, asked, again, there, [c for c, why in alike if not why]))
    not_folded = _UNSETTLED if unsettled else why_not_folded(session, again)
    if not not_folded:
        columns, unsure = foldable(spec, ledger)
        left_out |= unsure
        found.append(_bronze(there, history_again.versions_again(session, again), spec, columns))
    told = reduce(DataFrame.unionByName, found).drop(*key_slots(spec)).transform(compute_once)
    keys = told.select("key").distinct()
    count = keys.count()
    shown = told.join(sf.broadcast(keys.orderBy("key").limit(MAX_KEYS)), "key") if count > MAX_KEYS else told
    figures = there.agg(sf.count("*").alias("versions"), sf.count_if("_is_current").alias("rows")).first()
    assert figures is not None
    return Proven(figures.versions, figures.rows, count, _by_key(shown.collect() if count else []), not_folded, left_out)


def versions_there(session: SparkSession, again: Again, version: int) -> DataFrame:
    """The part's versions as the history has them, in slots."""
    rows = session.read.format("delta").option("versionAsOf", version).load(again.spec.path)
    return as_slots(rows, again.spec).where(in_part(again.spec, again.part, again.parts))


def why_not_folded(session: SparkSession, again: Again) -> str:
    """What stands in the way of folding the whole history again; empty: nothing."""
    if others := history_again.other_columns_tracked(session, again.spec, read_ledger(session, again.spec)):
        return f"the columns whose changes make a version {others}: build it anew: {rebuild_command(again.spec)}"
    lost = history_again.records_lost(session, again)
    known = sum(state.all_records for state in again.folded.topics.values())
    if lost:
        return f"bronze lacks {lost:,} of the {quantity(known, 'record', form=',')} that the history was made of"
    return _UNSETTLED if quarantine.last_settlement(session, again.spec) > again.folded.settled else ""


def foldable(spec: SilverSpec, ledger: ColumnLedger | None) -> tuple[list[Column], dict[str, str]]:
    """The columns whose old values events tell, and why the others' do not."""
    anew = {c.column for e in ledger.history for c in e.changes if c.kind == "add" and c.was} if ledger else set()
    unfilled = {*ledger.gaps_by_column()} if ledger else set()
    told, without = [], {}
    for column in spec.columns:
        if column.event_field.startswith(DROPPED):
            continue
        if column.name in anew | unfilled:
            without[column.name] = "events from before do not tell its value: it was added later" + (
                ", in place of another of its name" if column.name in anew else ", with a default that is not known"
            )
        else:
            told.append(column)
    return told, without


def wrong_keys(session: SparkSession, again: Again, there: DataFrame, made: DataFrame) -> DataFrame:
    """The keys (slots) whose versions are not those that bronze makes, or do not follow one another."""
    keys = key_slots(again.spec)
    columns, _ = foldable(again.spec, read_ledger(session, again.spec))
    found = _intervals(there, again.spec).select(*keys)
    return found.unionByName(_bronze(there, made, again.spec, columns).select(*keys)).distinct()


def key_text(spec: SilverSpec) -> Expression:
    """As a comparison of silver writes it; as JSON where the key has no text."""
    keys = {c.name: c for c in spec.columns if c.name in spec.keys}
    if all(isinstance(form(c), Form) for c in keys.values()):
        return RowText(spec).text(spec.keys)
    return sf.coalesce(quarantine.row_key(spec), sf.lit("?"))


def _findings(rows: DataFrame, spec: SilverSpec, proof: str) -> DataFrame:
    """Of the rows with a `kind`: key (slots and text), proof, what is wrong, at which version, and the columns `unlike`."""
    found = rows.where(sf.col("kind").isNotNull())
    version = sf.col("_valid_from").alias("version")
    columns = sf.col("unlike").cast("array<string>").alias("columns")
    return found.select(*key_slots(spec), key_text(spec).alias("key"), sf.lit(proof).alias("proof"), "kind", version, columns)


def _intervals(there: DataFrame, spec: SilverSpec) -> DataFrame:
    order = Window.partitionBy(*key_slots(spec)).orderBy("_valid_from", sf.col("_valid_to").asc_nulls_last())
    begin, end, place = sf.col("_valid_from"), sf.col("_valid_to"), sf.col("_cdc_position")
    seen = there.withColumn("next", sf.lead("_valid_from").over(order))
    kind = (
        sf.when(begin.isNull(), "begins nowhere")
        .when(end <= begin, "ends before it begins")
        .when(begin == sf.col("next"), "twice")
        .when(end.isNull() & sf.col("next").isNotNull(), "current before another")
        .when(end > sf.col("next"), "over the next")
        .when(~sf.col("_is_current").eqNullSafe(end.isNull()), "its mark of being current is wrong")
        .when((place < begin) | (place >= end), "made outside of its interval")
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


def _silver(session: SparkSession, asked: Proof, again: Again, there: DataFrame, columns: Sequence[Column]) -> DataFrame:
    spec = again.spec
    table = session.read.format("delta").option("versionAsOf", asked.silver_version).load(asked.silver_path)
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
    told = [places[c.name] for c in columns]
    names = [*told, *META, "_valid_to", "_is_current"]
    tracked = history_again.tracking_slots(spec)
    if not {*tracked} <= {*told} or any(c.event_field.startswith(DROPPED) for c in spec.columns):
        # A change of a column that bronze no longer tells has made versions that bronze no longer makes.
        by = [name for name in tracked if name in told]
        there, made = (history_again.alike_as_one(versions, spec, by) for versions in (there, made))
    return _differing(there, made, spec, BRONZE, names, [*key_slots(spec), "_valid_from"])


def _differing(
    there: DataFrame,
    wanted: DataFrame,
    spec: SilverSpec,
    proof: str,
    names: Sequence[str],
    on: Sequence[str],
) -> DataFrame:
    """Rows on one side only, and those of which a column of `names` differs, with the columns `on` that tell rows apart."""
    kinds = _OF_BRONZE if proof == BRONZE else _OF_SILVER
    values = [n for n in names if n not in on]
    left = there.select(*on, *[n for n in ("_valid_from",) if n not in on], sf.struct(sf.lit(1), *values).alias("h"))
    right = wanted.select(*[sf.col(n).alias(f"w_{n}") for n in on], sf.struct(sf.lit(1), *values).alias("w"))
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
    return tuple(_damage(key, found) for key, found in sorted(by_key.items()))


def _damage(key: str, found: Sequence[Row]) -> Damage:
    # What bronze says of a key is the whole of it; the other proofs saw its consequences.
    most = next(proof for proof in (BRONZE, INTERVALS, SILVER) if any(r.proof == proof for r in found))
    own = [r for r in found if r.proof == most]
    kinds = tuple(dict.fromkeys(r.kind for r in sorted(own, key=lambda r: r.version or "")))
    versions = tuple(sorted({r.version for r in own if r.version}))
    columns = tuple(sorted({c for r in own for c in r.columns or ()}))
    proofs = tuple(p for p in (BRONZE, INTERVALS, SILVER) if any(r.proof == p for r in found))
    return Damage(key, kinds, versions, columns, proofs)
