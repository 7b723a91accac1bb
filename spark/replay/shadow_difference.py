"""What differs between a live table and its shadow: by key where both have it, else by whole rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, DataType

from spark.delta.conditions import all_of
from spark.delta.identifiers import quote
from spark.replay.replay_spec import Difference
from spark.specs import META, VALID

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


def compare(tables: TwoTables) -> Difference:
    """Count what differs, and show some of it."""
    missing = [key for key in tables.keys if key not in tables.live.columns]
    found = _by_row(tables) if missing or not tables.keys else _by_key(tables)
    return Difference(tables.version, found[0], found[1], _schema_changes(tables.live, tables.made), found[2])


def _by_key(tables: TwoTables) -> tuple[dict[str, int], dict[str, int], tuple[dict[str, object], ...]]:
    both = _join(tables)
    names = tables.columns
    differs = [~sf.col(f"l{i}").eqNullSafe(sf.col(f"m{i}")) for i in range(len(names))]
    changed = sf.col("kind") == "changed"
    counts = both.groupBy("kind").agg(
        sf.count("*").alias("rows"), *[sf.count_if(changed & each).alias(f"d{i}") for i, each in enumerate(differs)]
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
    """A value as a text: what has another type by today's rules is the same if it reads the same."""
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
            told = {name: row[f"v{i}"] for i, name in enumerate(names)}
            examples.append({"kind": kind, "key": {}, "was": {}, "now": {}, word: told})
    return rows, {}, tuple(examples)


def _schema_changes(live: DataFrame, made: DataFrame) -> tuple[str, ...]:
    was, now = ({f.name: f.dataType.simpleString() for f in rows.schema.fields} for rows in (live, made))
    told = [f"+ {name} {kind}" for name, kind in now.items() if name not in was]
    told += [f"- {name} {kind}" for name, kind in was.items() if name not in now]
    return tuple(told + [f"~ {name} {was[name]} -> {now[name]}" for name in now if was.get(name, now[name]) != now[name]])


def key_of(layer_keys: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    """What tells a table's rows apart: its key, and of a history where the version begins."""
    return (*layer_keys, *([VALID[0]] if layer_keys and VALID[0] in columns else []))
