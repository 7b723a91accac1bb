"""What a comparison asks of the lake, in its order: sums per bucket, the rows of some buckets, some keys in full; for
several small tables by one query.

Rows come from spark.proof.table_at_cut and are compared by the number of spark.proof.row_text. A table that cannot be
read at the cut raises JobRefusedError.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from spark.proof.key_order import Bound, KeyRange, about
from spark.proof.row_text import LOW_BITS, WHOLE, RowText, Slice
from spark.proof.snapshot_cut import AnyCut
from spark.proof.table_at_cut import AtCut, Base
from spark.silver.typed_changes import slot
from spark.specs import SilverSpec
from spark.table import spark_plans
from spark.table.identifiers import quote
from spark.table.spark_failures import restartable

Digest = dict[int, tuple[int, int]]
KeyHashes = Counter[tuple[str, int]]
Texts = dict[str, str | None]


@dataclass(frozen=True)
class Task:
    """One table at one cut, and the slice of it that is looked at."""

    spec: SilverSpec
    base: Base
    cut: AnyCut
    part: Slice = WHOLE
    without: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Suspect:
    """A key as bronze says that it should be, and as silver has it (folded up to the cut); texts by column, None: no row.

    `hides`: the key has events that the cut does not see, so only bronze's answer counts. `copies`: its rows in silver.
    `set_aside`: its newest event is in quarantine.
    """

    bronze_hash: int | None
    bronze: Texts | None
    silver: Texts | None
    hides: bool
    copies: int
    set_aside: bool = False


def suit_wide_rows(session: SparkSession) -> None:
    """Before a session's first plan of a comparison."""
    # What a condition on a row's whole text says of each column beneath is of no use, and Spark inferred it for minutes where a
    # wide table's columns had changed. A comparison without such news takes 0.43 s (12 columns) and 0.49 s (40) either way.
    session.conf.set("spark.sql.constraintPropagation.enabled", "false")


def at_cut(session: SparkSession, task: Task) -> AtCut:
    """The task's table, in a session whose plans suit wide rows."""
    return AtCut(session, task.spec, task.base, task.cut, task.without)


@restartable
def digest(session: SparkSession, task: Task) -> Digest:
    """Rows, and the sum of their hashes, by bucket."""
    most = spark_plans.rows_at_most(task.base.committed.of_table(task.spec.table).values())
    spark_plans.suit(session, events=0, rows=most)
    spark_plans.spread(session, most)
    suit_wide_rows(session)
    at = at_cut(session, task)
    rows = at.rows().where(at.row_text.within(task.part))
    sums = sum_buckets(rows.select(*row_columns(at), "hidden"))
    if any(r.hidden for r in sums):
        sums = sum_buckets(_rows_at_cut(at, rows).withColumn("hidden", sf.lit(False)))
    return {r.bucket: sum_of(r) for r in sums}


def sum_buckets(rows: DataFrame, *more: str) -> list[Row]:
    """By bucket, and by `more` columns: the rows, those that are hidden, and the sums of both halves of their hashes."""
    # A column's name alone would be looked up by a call to the server.
    grouped = (
        spark_plans.in_spare_slots(rows)
        .groupBy(*map(sf.col, (*more, "bucket")))
        .agg(
            sf.count("*").alias("rows"),
            sf.count_if("hidden").alias("hidden"),
            sf.sum(sf.shiftright("hash", LOW_BITS)).alias("high"),
            sf.sum(sf.col("hash").bitwiseAND(sf.lit((1 << LOW_BITS) - 1))).alias("low"),
        )
    )
    return grouped.collect()


def sum_of(row: Row) -> tuple[int, int]:
    """A bucket's rows and the sum of their hashes, which is too large for a bigint."""
    return row.rows, (row.high << LOW_BITS) + row.low


@restartable
def key_hashes(session: SparkSession, task: Task, buckets: Sequence[int]) -> KeyHashes:
    """Key text and hash of every row in some buckets."""
    suit_wide_rows(session)
    at = at_cut(session, task)
    chosen = at.rows().where(at.row_text.within(task.part))
    rows = _rows_at_cut(at, chosen).where(sf.col("bucket").isin(*buckets)).select("key", "hash")
    table = rows.toArrow()
    return Counter(zip(table.column("key").to_pylist(), table.column("hash").to_pylist(), strict=True))


@dataclass(frozen=True)
class SilverRows:
    """Silver's rows at the cut of the keys that were asked for, and those of a range of its own keys, with these' values."""

    asked: KeyHashes
    ranged: KeyHashes
    values: Mapping[str, tuple[str | None, ...]]


@restartable
def two_ranges(session: SparkSession, task: Task, keys: Sequence[str], own: KeyRange) -> SilverRows:
    """The rows of these keys (texts), and those of a range of keys in the order of their texts."""
    spark_plans.suit(session, events=0, rows=spark_plans.rows_at_most(task.base.committed.of_table(task.spec.table).values()))
    suit_wide_rows(session)
    at = at_cut(session, task)
    text = at.row_text
    keys_frame = session.createDataFrame([(key,) for key in keys], "asked string")
    ranged = _is_within(text.key(), own)
    rows = at.rows().withColumn("ranged", ranged).join(sf.broadcast(keys_frame), text.key() == sf.col("asked"), "left")
    chosen = rows.where(sf.col("ranged") | sf.col("asked").isNotNull()).drop("ranged", "asked")
    settled = _rows_at_cut(at, chosen, ranged.alias("ranged"), *text.key_columns())
    table = settled.drop("bucket").toArrow().to_pydict()
    key_set, hashed = {*keys}, [*zip(table["key"], table["hash"], table["ranged"], strict=True)]
    values = zip(*(table[f"k{i}"] for i in range(len(text.keys))), strict=True)
    return SilverRows(
        Counter((key, hash_) for key, hash_, _ in hashed if key in key_set),
        Counter((key, hash_) for key, hash_, within in hashed if within),
        {key: text.key_values(value) for (key, _, within), value in zip(hashed, values, strict=True) if within},
    )


def _is_within(key: Expression, own: KeyRange) -> Expression:
    above = sf.lit(True) if own.after is None else key > sf.lit(own.after[0])
    return above if own.to is None else above & (key <= sf.lit(own.to[0]))


@dataclass(frozen=True)
class Next:
    """Asks for the end of the range of about `count` keys that follows `after`, in silver at a version.

    In the order of the key's columns, or (`by_text`) in that of its text.
    """

    spec: SilverSpec
    version: int
    after: Bound | None
    count: int
    by_text: bool = False


@restartable
def range_end(session: SparkSession, request: Next) -> Bound | None:
    """The last key of the range; None: it is the last range."""
    text = RowText(request.spec)
    silver = session.read.format("delta").option("versionAsOf", request.version).load(request.spec.path)
    places = {c.name: i for i, c in enumerate(request.spec.columns)}
    keys = silver.select(*[sf.col(quote(key)).alias(slot(places[key])) for key in text.keys])
    if request.by_text:
        return about(
            keys.select(text.key().alias("key")).where(_is_within(sf.col("key"), KeyRange((), request.after))), request.count
        )
    assert text.order is not None
    return text.order.end(keys, request.after, request.count)


@restartable
def suspects(session: SparkSession, task: Task, keys: Sequence[str]) -> dict[str, Suspect]:
    """These keys, by bronze and by silver."""
    suit_wide_rows(session)
    at = at_cut(session, task)
    key_frame = session.createDataFrame([(k,) for k in keys], "key string")
    bronze = at.from_bronze(keys)
    absent = sf.col(slot(0)).isNull() & sf.col("_cdc_op").isNull()
    marks = [sf.coalesce(mark, sf.lit(False)).alias(mark) for mark in ("hides", "set_aside")]
    facts = bronze.select("key", *marks, sf.when(~absent, at.row_text.hash()).alias("hash"), *_texts(at))
    by_bronze = {r.key: r for r in facts.collect()}
    silver = at.rows().withColumn("key", at.row_text.key()).join(sf.broadcast(key_frame), "key", "left_semi")
    rows = silver.select("key", *_texts(at)).collect()
    by_silver, copies = {r.key: r for r in rows}, Counter(r.key for r in rows)
    return {key: _suspect(at, by_bronze.get(key), by_silver.get(key), copies[key]) for key in keys}


def _suspect(at: AtCut, bronze: Any, silver: Any, copies: int) -> Suspect:
    there = bronze is not None and bronze.hash is not None
    return Suspect(
        bronze_hash=bronze.hash if there else None,
        bronze=_display_row(at, bronze) if there else None,
        silver=_display_row(at, silver) if silver is not None else None,
        hides=bool(bronze is not None and bronze.hides),
        copies=copies,
        set_aside=bool(bronze is not None and bronze.set_aside),
    )


def _texts(at: AtCut) -> list[Any]:
    order = {c.name: i for i, c in enumerate(at.spec.columns)}
    return [form.lake(sf.col(slot(order[name]))).alias(f"t{i}") for i, (name, form) in enumerate(at.row_text.forms.items())]


def _display_row(at: AtCut, row: Mapping[str, Any]) -> Texts:
    return at.row_text.display([row[f"t{i}"] for i in range(len(at.row_text.forms))])


def _rows_at_cut(at: AtCut, rows: DataFrame, *more: Expression) -> DataFrame:
    """Of these rows at the cut: key text, hash, bucket, and `more`. Rows of silver that the cut does not see come from bronze."""
    text, columns, rows = at.row_text, (*row_columns(at), *more), spark_plans.in_spare_slots(rows)
    if not at.spec.keys:
        return rows.select(*columns)
    shown = rows.where("hidden").select(text.key().alias("key")).distinct()
    keys = [r.key for r in shown.collect()]
    if not keys:
        return rows.select(*columns)
    hidden_keys = at.session.createDataFrame([(k,) for k in keys], "key string")
    again = at.from_bronze(keys).where(sf.col("_cdc_op").isNotNull())
    rest = rows.select(*columns).join(sf.broadcast(hidden_keys), "key", "left_anti")
    return spark_plans.in_spare_slots(rest.unionByName(again.select(*columns)))


def row_columns(at: AtCut) -> tuple[Expression, ...]:
    """A row's key text, hash and bucket."""
    text = at.row_text
    return text.key().alias("key"), text.hash().alias("hash"), text.bucket().alias("bucket")


@restartable
def digest_small_tables(session: SparkSession, tasks: Sequence[Task]) -> list[Digest | None]:
    """Rows, and the sum of their hashes, by bucket, of each table; None: a row shows what the cut does not see, and the table has
    to be looked at alone (`job.digest`)."""
    spark_plans.suit(session, events=0)
    suit_wide_rows(session)
    numbered = [_rows_of(session, number, task) for number, task in enumerate(tasks)]
    digests: list[Digest | None] = [{} for _ in tasks]
    for row in sum_buckets(reduce(DataFrame.unionAll, numbered), "task"):
        digest = digests[row.task]
        if row.hidden:
            digests[row.task] = None
        elif digest is not None:
            digest[row.bucket] = sum_of(row)
    return digests


def _rows_of(session: SparkSession, number: int, task: Task) -> DataFrame:
    at = at_cut(session, task)
    rows = at.rows().where(at.row_text.within(task.part))
    return rows.select(sf.lit(number).alias("task"), *row_columns(at), "hidden")
