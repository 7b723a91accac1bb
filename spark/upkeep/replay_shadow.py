"""The shadow of a live table: folded by the table's own job from all of bronze, by today's rules, up to where the live
table is; and what differs between the two.

Today's rules are the source's columns and the declared key, with what the live table keeps of earlier schemas where
that still goes together. Both are at the same place in the log, so a difference is due to the replay alone: by key
where both have it, else by whole rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, DataType

from spark.bronze.change_log import fold_at_last_run
from spark.errors import HistoryTooShortError, JobRefusedError, RebuildNeededError, quantity
from spark.events.field_columns import order_of, orders_with
from spark.proof.history_proof import Again, records_lost
from spark.silver import fold_job as silver_job
from spark.silver import history_job, quarantine_table
from spark.silver.column_ledger import PROPERTY, ColumnLedger, FoldRules, diff, rule_changes
from spark.silver.schema_evolution import at_birth, compare_columns, first_ledger, read_ledger, set_properties
from spark.specs import META, VALID, Column, SilverSpec, conditions_text
from spark.table.commit_metadata import Folded
from spark.table.delta_table import table_of
from spark.table.identifiers import quote
from spark.table.spark_plans import all_of
from spark.upkeep.replay_spec import HISTORY, QUARANTINE, SILVER, Difference, ReplaySpec


@dataclass(frozen=True)
class TodaysRules:
    """`spec` and the schema ledger of a table made by them; `changes` tells what differs from the live table's, for people."""

    spec: SilverSpec
    ledger: ColumnLedger
    changes: tuple[str, ...] = ()


def find_rules(session: SparkSession, spec: SilverSpec, before: Folded | None, *, as_new: bool) -> TodaysRules:
    """Those for a live table that has folded `before`.

    Raises:
        TableStopError: the table is declared to halt at a change of its source.
    """
    ledger_before = read_ledger(session, spec) if before is not None else None
    if ledger_before is None or before is None:
        born = at_birth(spec)
        return TodaysRules(born, first_ledger(born))
    changes = (
        [] if {*ledger_before.keys} == {*spec.keys} else [f"key: {_in_brackets(ledger_before.keys)} -> {_in_brackets(spec.keys)}"]
    )
    if {*ledger_before.where} != {*spec.where}:
        changes.append(f"rows: {conditions_text(ledger_before.where)} -> {conditions_text(spec.where)}")
    now = FoldRules.of(spec)
    changes += [change.text for change in rule_changes(ledger_before.made_by, now, ledger_before.tracking())]
    if as_new:
        return _with_columns_of_today(spec, ledger_before, before, changes)
    try:
        difference = compare_columns(replace(ledger_before, keys=(), where=spec.where, left_out=()), spec, after=before.highest)
    except RebuildNeededError as reason:
        return _with_columns_of_today(spec, ledger_before, before, [*changes, f"columns as the source has them today: {reason}"])
    ledger = replace(difference.next_ledger(after=before.highest), made_by=(now,))
    if came := sorted({*ledger_before.left_out} - {*ledger.left_out}):
        changes.append(f"columns that were left out: {', '.join(came)}")
    changes += [line for entry in ledger.history[len(ledger_before.history) :] for line in diff(entry)]
    return TodaysRules(difference.effective, ledger, tuple(changes))


def _with_columns_of_today(spec: SilverSpec, ledger_before: ColumnLedger, before: Folded, changes: list[str]) -> TodaysRules:
    """Without what is kept of earlier schemas; events from before have a column under the names that it had then."""
    by_number = {c.number: c for c in ledger_before.columns if (c.number or 0) > 0}
    by_name = {c.event_field: c for c in sorted(ledger_before.columns, key=lambda c: c.since)}
    columns = [_with_former_names(c, by_number.get(c.number) or by_name.get(c.name)) for c in spec.columns]
    orders = orders_with(ledger_before.orders, order_of(ledger_before.of_source()), order_of(spec.columns, after=before.highest))
    born = at_birth(replace(spec, columns=tuple(columns), renewed=ledger_before.renewed, orders=orders))
    ledger = replace(first_ledger(born), renewed=born.renewed, orders=orders)
    if left := sorted({c.name for c in ledger_before.columns} - {c.name for c in born.columns}):
        changes = [*changes, f"columns left out: {', '.join(left)}"]
    return TodaysRules(born, ledger, tuple(changes))


def _with_former_names(column: Column, column_before: Column | None) -> Column:
    if column_before is None:
        return column
    names = dict.fromkeys((*column_before.formerly, column_before.event_field))
    return replace(column, formerly=tuple(name for name in names if name != column.name))


def _in_brackets(names: object) -> str:
    return f"({', '.join(names) if isinstance(names, (tuple, list)) else ''})"


JOBS = {SILVER: silver_job.run, HISTORY: history_job.run}


def place_of_live(session: SparkSession, replay: ReplaySpec, layer: str, *, version: int | None = None) -> Folded:
    """What the live table has folded, at a version where one is given; a history that is not there yet begins where silver is.

    Raises:
        JobRefusedError: there is no silver table.
    """
    own = None if version == -1 else table_of(replay.live[layer].path).silver_folded(up_to=version)
    before = own or table_of(replay.silver.path).silver_folded()
    if before is None:
        raise JobRefusedError(f"{replay.silver.path}: there is no table yet: its next run makes it from all of bronze")
    return before


def rules_of_live(session: SparkSession, replay: ReplaySpec, layer: str, version: int) -> TodaysRules:
    """Today's rules for the live table at that version (-1: there is none yet).

    Raises:
        JobRefusedError: there is no silver table.
        TableStopError: the table is declared to halt at a change of its source.
    """
    before = place_of_live(session, replay, layer, version=version)
    return find_rules(session, replay.live[layer], before if version >= 0 else None, as_new=replay.as_new)


def build_shadow(session: SparkSession, replay: ReplaySpec, layer: str, by: tuple[TodaysRules, int]) -> None:
    """Fold it by these rules, as far as the live table had at that version.

    Raises:
        JobRefusedError: bronze does not hold all that the live table was made of.
        TableStopError: more records than the table's limit cannot be folded.
    """
    rules, version = by
    live, before = replay.live[layer], place_of_live(session, replay, layer, version=version)
    limit = _limit(session, live, before)
    lost = records_lost(session, Again(live, before, limit))
    if lost:
        records = sum(state.all_records for state in before.topics.values())
        raise JobRefusedError(
            f"table {live.table}: {live.bronze_path} lacks {lost:,} of the {quantity(records, 'record', form=',')} that "
            f"{live.path} was made of, so it cannot be made again; the table is unchanged. Read it again from the source: "
            f"cdc snapshot {live.source} {live.table}"
        )
    shadow = replay.shadow_of(rules.spec, layer)
    JOBS[layer](session, replace(shadow, folded_limit=limit))
    set_properties(session, shadow.path, {PROPERTY: rules.ledger.to_text()})


def seed_quarantine(session: SparkSession, replay: ReplaySpec) -> None:
    """The records that were given up stay so: the shadow does not wait for them."""
    if not quarantine_table.exists(session, replay.silver):
        return
    given_up = quarantine_table.table(session, replay.silver).where("dropped_at IS NOT NULL")
    if not given_up.isEmpty():
        given_up.write.format("delta").mode("error").save(f"{replay.folder}/{QUARANTINE}")


def catch_up(session: SparkSession, replay: ReplaySpec, layer: str) -> None:
    """Fold what the live table has folded since, by an ordinary run upon the shadow."""
    live, before = replay.live[layer], place_of_live(session, replay, layer)
    shadow = replay.shadow_of(live, layer)
    if silver_job.has_news(before.topics, table_of(shadow.path).silver_folded()):
        JOBS[layer](session, replace(shadow, folded_limit=_limit(session, live, before)))


def _limit(session: SparkSession, live: SilverSpec, before: Folded) -> int:
    try:
        return fold_at_last_run(live, before).version
    except HistoryTooShortError as error:
        raise JobRefusedError(
            f"table {live.table}: the log of {live.bronze_path} no longer reaches back to version {before.bronze_version}, up to "
            f"which {live.path} has folded: {error}; let an ordinary run fold what is new, then replay"
        ) from error


KINDS = ("added", "changed", "gone", "moved")


@dataclass(frozen=True)
class TwoTables:
    """The rows of a live table at a version, and those made. `keys` tell rows apart, in both; `examples`: how many of a kind."""

    live: DataFrame
    made: DataFrame
    keys: tuple[str, ...]
    version: int
    examples: int

    @property
    def columns(self) -> list[str]:
        """Those that both have, but for the key's and our own."""
        own = {*self.keys, *META}
        return [name for name in self.made.columns if name in self.live.columns and name not in own]


def rows_of(session: SparkSession, path: str, version: int | None = None) -> DataFrame:
    """A table's rows, at a version where one is given."""
    reader = session.read.format("delta")
    return (reader if version is None else reader.option("versionAsOf", version)).load(path)


def compare_shadow(tables: TwoTables) -> Difference:
    """Count what differs, and show some of it."""
    missing = [key for key in tables.keys if key not in tables.live.columns]
    counts = _by_row(tables) if missing or not tables.keys else _by_key(tables)
    return Difference(tables.version, counts[0], counts[1], _schema_changes(tables.live, tables.made), counts[2])


def _by_key(tables: TwoTables) -> tuple[dict[str, int], dict[str, int], tuple[dict[str, object], ...]]:
    both = _join(tables)
    names = tables.columns
    differs = [~sf.col(f"l{i}").eqNullSafe(sf.col(f"m{i}")) for i in range(len(names))]
    changed = sf.col("kind") == "changed"
    counts = both.groupBy("kind").agg(
        sf.count("*").alias("rows"), *[sf.count_if(changed & differ).alias(f"d{i}") for i, differ in enumerate(differs)]
    )
    by_kind = {row.kind: row for row in counts.collect()}
    rows = {kind: int(by_kind[kind]["rows"]) if kind in by_kind else 0 for kind in KINDS}
    columns = {name: int(by_kind["changed"][f"d{i}"]) for i, name in enumerate(names)} if "changed" in by_kind else {}
    shown = [row for kind in KINDS if rows[kind] for row in both.where(sf.col("kind") == kind).limit(tables.examples).collect()]
    examples = tuple(_example(tables, row.asDict()) for row in shown)
    return rows, {name: count for name, count in columns.items() if count}, examples


def _join(tables: TwoTables) -> DataFrame:
    """One row per row that one of both lacks, or has otherwise: `kind`, the key k0.., texts l0.. and m0.. of what they have.

    A row that is there twice has a twin in neither: it counts as gone, or added.
    """
    live, made = (_rows_with_number(tables, rows, side) for rows, side in ((tables.live, "l"), (tables.made, "m")))
    at = [f"k{i}" for i in range(len(tables.keys))] + ["n"]
    same = [sf.col(f"l.{name}").eqNullSafe(sf.col(f"m.{name}")) for name in at]
    joined = live.alias("l").join(made.alias("m"), same, "full_outer")
    here = [sf.coalesce(sf.col(f"l.{name}"), sf.col(f"m.{name}")).alias(name) for name in at]
    values = [f"{side}{i}" for side in "lm" for i in range(len(tables.columns))]
    equal = all_of([sf.col(f"l{i}").eqNullSafe(sf.col(f"m{i}")) for i in range(len(tables.columns))])
    kind = (
        sf.when(sf.col("l_there").isNull(), "added")
        .when(sf.col("m_there").isNull(), "gone")
        .when(~equal, "changed")
        .when(~sf.col("l_meta").eqNullSafe(sf.col("m_meta")), "moved")
    )
    return joined.select(*here, *values, kind.alias("kind")).where(sf.col("kind").isNotNull())


def _rows_with_number(tables: TwoTables, rows: DataFrame, side: str) -> DataFrame:
    """A table's key, its columns as texts, and the number of the row among those of its key (1, where all is well)."""
    types = {field.name: field.dataType for field in rows.schema.fields}
    keys = [_text(name, types[name]).alias(f"k{i}") for i, name in enumerate(tables.keys)]
    values = [_text(name, types[name]).alias(f"{side}{i}") for i, name in enumerate(tables.columns)]
    meta = sf.struct(*[sf.col(name) for name in META if name in types]).alias(f"{side}_meta")
    named = rows.select(*keys, *values, meta, sf.lit(True).alias(f"{side}_there"))
    order = Window.partitionBy(*[f"k{i}" for i in range(len(tables.keys))]).orderBy(f"{side}_meta", *_names(side, tables))
    return named.withColumn("n", sf.row_number().over(order))


def _names(side: str, tables: TwoTables) -> list[str]:
    return [f"{side}{i}" for i in range(len(tables.columns))]


def _text(name: str, kind: DataType) -> Expression:
    # As texts: what has another type by today's rules is the same if it reads the same.
    value = sf.col(quote(name))
    return sf.hex(value) if isinstance(kind, BinaryType) else value.cast("string")


def _example(tables: TwoTables, row: dict[str, object]) -> dict[str, object]:
    kind, names = row["kind"], tables.columns
    shown = [i for i in range(len(names)) if kind != "changed" or row[f"l{i}"] != row[f"m{i}"]]
    was = {names[i]: row[f"l{i}"] for i in shown} if kind in ("gone", "changed") else {}
    now = {names[i]: row[f"m{i}"] for i in shown} if kind in ("added", "changed") else {}
    return {"kind": kind, "key": {name: row[f"k{i}"] for i, name in enumerate(tables.keys)}, "was": was, "now": now}


def _by_row(tables: TwoTables) -> tuple[dict[str, int], dict[str, int], tuple[dict[str, object], ...]]:
    """Of rows that no key tells apart: those that only one has, as often as it has them more."""
    names = [name for name in tables.made.columns if name in tables.live.columns and name not in META]
    live, made = (
        rows.select(*[_text(name, rows.schema[name].dataType).alias(f"v{i}") for i, name in enumerate(names)])
        for rows in (tables.live, tables.made)
    )
    only = {"gone": live.exceptAll(made), "added": made.exceptAll(live)}
    rows = {kind: only[kind].count() if kind in only else 0 for kind in KINDS}
    examples: list[dict[str, object]] = []
    for kind, word in (("gone", "was"), ("added", "now")):
        for row in only[kind].limit(tables.examples).collect() if rows[kind] else ():
            values = {name: row[f"v{i}"] for i, name in enumerate(names)}
            examples.append({"kind": kind, "key": {}, "was": {}, "now": {}, word: values})
    return rows, {}, tuple(examples)


def _schema_changes(live: DataFrame, made: DataFrame) -> tuple[str, ...]:
    was, now = ({f.name: f.dataType.simpleString() for f in rows.schema.fields} for rows in (live, made))
    lines = [f"+ {name} {kind}" for name, kind in now.items() if name not in was]
    lines += [f"- {name} {kind}" for name, kind in was.items() if name not in now]
    return tuple(lines + [f"~ {name} {was[name]} -> {now[name]}" for name in now if was.get(name, now[name]) != now[name]])


def key_of(layer_keys: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    """What tells a table's rows apart: its key, and of a history where the version begins."""
    return (*layer_keys, *([VALID[0]] if layer_keys and VALID[0] in columns else []))
