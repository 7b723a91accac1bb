"""A silver table as it is at a cut of the source's log, although it was folded at another moment.

Silver at a version read before the cut is joined by the events after it that the cut sees, from bronze or the
mirrored topic; keys with rows that the cut does not see are folded from all of bronze. Bronze rows of a few keys are
found by the records' own keys, so that no other value is parsed. Nothing is compared while a full snapshot is on its
way, or where silver lacks a column still (JobRefusedError).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from spark.bronze import batch_records
from spark.bronze.batch_records import assign_positions, count_groups
from spark.bronze.change_log import by_partition, new_events, table_events
from spark.errors import JobRefusedError
from spark.events import kafka_source as kafka_ranges
from spark.events.positions import epoch_prefix
from spark.events.record_readers import envelope
from spark.proof.row_text import RowText
from spark.proof.snapshot_cut import AnyCut
from spark.silver import current_view, keyless_tables, quarantine_table
from spark.silver.column_ledger import ledger_in
from spark.silver.current_view import ColumnsAtCut, columns_at_cut
from spark.silver.newest_event import POSITION, after_truncate, fold_per_key, mark_problems
from spark.silver.row_fold import OF_TABLE
from spark.silver.schema_evolution import read_ledger
from spark.silver.typed_changes import PROBLEM, decode_changes, key_slots, lake_types, slot
from spark.specs import BRONZE_NAMES, DELETED, META, BronzeSpec, SilverSpec, TopicRange
from spark.table.commit_metadata import Committed, Folded
from spark.table.spark_plans import PlainTable, any_of, read_plain
from spark.table.spark_session import compute_once
from spark.values.missing_values import missing_leaf

MAX_KEYS, MAX_PLACES = 2_000, 20_000
"""More of either make an expression that costs more than it saves."""


def rows_of_keys(rows: DataFrame, text: RowText, keys: Sequence[str]) -> DataFrame:
    """At least the rows (in bronze's columns) of the keys with these texts; all rows where their records do not tell.

    Found by the records' own keys: of all the others no value is read or parsed. Parsing every event of a table of
    1,000,000 rows for a handful of suspects took a minute. A record's key is small, and decides the row's key wherever
    it holds all of it (spark.events.text_leaves); records whose key does not are kept.
    """
    spec = text.spec
    texts = _texts(spec)
    if texts is None or len(keys) > MAX_KEYS:
        return rows
    typed = [
        kind.convert(texts[c.name]) if c.name in texts else None for c, kind in zip(spec.columns, lake_types(spec), strict=True)
    ]
    seen = rows.withColumns({slot(i): value for i, value in enumerate(typed) if value is not None})
    unknown = any_of([sf.col(name).isNull() for name in key_slots(spec)])
    places_found = (
        seen.where(unknown | text.key().isin(*keys)).select("topic", "partition", "offset").limit(MAX_PLACES + 1).collect()
    )
    if len(places_found) > MAX_PLACES:
        return rows
    places: dict[tuple[str, int], list[int]] = defaultdict(list)
    for row in places_found:
        places[row.topic, row.partition].append(row.offset)
    # Offsets, so that the statistics of files and row groups leave out what has none of them.
    return rows.where(any_of([_at(*partition, offsets) for partition, offsets in places.items()]))


def _at(topic: str, partition: int, offsets: Sequence[int]) -> Expression:
    return (sf.col("topic") == topic) & (sf.col("partition") == partition) & sf.col("offset").isin(*offsets)


def _texts(spec: SilverSpec) -> dict[str, Expression] | None:
    """The key columns' texts as the record's key has them; None where it takes more than the key to tell."""
    columns = {c.name: c for c in spec.columns if c.name in spec.keys}
    plain = all(c.event_field == c.name and not c.formerly and not c.since and missing_leaf(c) is None for c in columns.values())
    record = envelope(spec.envelope).record_key(spec) if plain and spec.keys else None
    return None if record is None else {name: record.getField(name) for name in columns}


@dataclass(frozen=True)
class Base:
    """What was read before the cut: silver's version (`plain`: that version's files) and what it had folded, and what bronze had
    committed.

    `tail` are the ranges between bronze's positions and the cut, `bootstrap` and `login` the cluster that holds them. With `view`
    the rows are not silver's but those of its view of then: all that bronze had is in them.
    """

    version: int
    folded: Folded
    committed: Committed
    tail: TopicRange | None
    bootstrap: str
    login: str = ""
    view: bool = False
    plain: PlainTable | None = None

    def has_news(self, table: str) -> bool:
        """Whether anything lies between what the rows hold and the cut; False saves looking."""
        if self.tail is not None and any(start < end for start, end in self.tail.ranges.values()):
            return True
        if self.view:
            return False
        for topic, state in self.committed.of_table(table).items():
            folded = self.folded.topics.get(topic)
            if folded is None or folded.epoch != state.epoch or folded.positions != state.positions:
                return True
        return False


@dataclass(frozen=True)
class AtCut:
    """One table at one cut; `without` as in RowText.

        silver at version V, read before the cut ─ rows of keys without news ───────────────┐
             └─ rows of keys with news ─┐                                                   ├─▶ rows at the cut
        events after V, up to the cut ──┴─ those that the cut sees, folded by position ─────┘
        rows of V that the cut does not see: their keys folded from all of bronze

    V and the bronze version are read before the snapshot of the source is taken, so all they hold had been delivered by
    then; what came later is read from bronze or, where bronze does not have it yet, from the mirrored topic. Rows read
    by an incremental snapshot reflect every earlier event of their topic partition: one that follows a hidden event of
    its key is hidden with it. A row of a full snapshot says nothing about the cut: while one is on its way, nothing is
    compared.

    Where silver is behind a change of the schema, all of this is read as silver's next run will read it
    (columns_at_cut).
    """

    session: SparkSession
    spec: SilverSpec
    base: Base
    cut: AnyCut
    without: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def row_text(self) -> RowText:
        """How its rows are written."""
        return RowText(self.spec, self.without)

    @cached_property
    def silver(self) -> DataFrame:
        """Silver at its version, in the columns of changes; rows marked as deleted included."""
        if missing := [name for name in self._columns.unheld if name not in self.without]:
            raise JobRefusedError(f"silver has no column {', '.join(missing)} yet: run it again once silver has folded on")
        if self._view is not None:
            return self._columns.of_source(self._view.in_slots(*META, _mark_of_gone(self._view.rows)))
        table = self._read_silver()
        return self._columns.of_source(self._columns.of_table(table, *META, _mark_of_gone(table)))

    def _read_silver(self) -> DataFrame:
        if self.base.plain is not None:
            return read_plain(self.session, self.base.plain)
        return self.session.read.format("delta").option("versionAsOf", self.base.version).load(self.spec.path)

    @cached_property
    def _view(self) -> current_view.ViewRows | None:
        if not self.base.view:
            return None
        return current_view.rows_at(
            self.session, self.spec, current_view.Moment(self.base.version, self.base.folded, self.base.committed)
        )

    @cached_property
    def _held(self) -> Folded:
        """What the rows of `silver` hold."""
        folded, committed = self.base.folded, self.base.committed
        if self._view is None:
            return folded
        topics = committed.of_table(self.spec.table)
        return replace(folded, bronze_version=committed.version, topics=topics, truncated=self._view.truncated)

    @cached_property
    def _columns(self) -> ColumnsAtCut:
        plain = self.base.plain
        ledger = read_ledger(self.session, self.spec) if plain is None else ledger_in(plain.properties)
        return columns_at_cut(ledger, self.spec, after=self.base.folded.highest)

    @cached_property
    def events(self) -> DataFrame:
        """What silver had not folded, up to the cut; held, since it is looked at more than once."""
        fresh = new_events(self.session, self.spec, self.base.committed, self._held).select(*BRONZE_NAMES)
        tail = self._tail()
        rows = fresh if tail is None else fresh.unionByName(tail)
        return self._mark_hidden(rows).transform(compute_once)

    def _mark_hidden(self, rows: DataFrame) -> DataFrame:
        changes = self._columns.of_source(decode_changes(rows, self._columns.lake))
        return changes.withColumn("hidden", self._hidden(self._in_base()))

    def _hidden(self, in_base: Expression) -> Expression:
        """What the cut does not see. Positions and transactions of an earlier epoch are of another log: all of it lies before.

        What had been read before the cut and says that it was written behind it was not written by the source at all: the row
        that it makes is compared, and named.
        """
        hidden = self.cut.hides(sf.col("_cdc_tx_id"), sf.col(POSITION), sf.col("_cdc_op"))
        hidden = hidden & ~(in_base & self.cut.is_behind(sf.col(POSITION)))
        return hidden & (sf.col(POSITION) >= self._epoch) if self._epoch else hidden

    def _in_base(self) -> Expression:
        """Whether bronze had the event before the cut."""
        topic = self.base.tail
        if topic is None:
            return sf.lit(True)
        starts = by_partition({topic.topic: {p: start for p, (start, _) in topic.ranges.items()}})
        return sf.coalesce(sf.col("offset") < starts, sf.lit(False))

    @property
    def _epoch(self) -> str | None:
        """Where positions of the newest epoch begin; None while there was no other. What has no event in it is gone."""
        epoch = max((state.epoch for state in self.base.committed.of_table(self.spec.table).values()), default=0)
        return epoch_prefix(epoch) if epoch else None

    def _is_undecided(self) -> Expression:
        """Rows of a full snapshot that bronze did not have before the cut."""
        topic = self.base.tail
        if topic is None:
            return sf.lit(False)
        starts = by_partition({topic.topic: {p: start for p, (start, _) in topic.ranges.items()}})
        late = sf.coalesce(sf.col("offset") >= starts, sf.lit(False))
        return late & sf.col("_cdc_op").eqNullSafe("r") & ~sf.col("snapshot").eqNullSafe("incremental")

    def _tail(self) -> DataFrame | None:
        """Records that bronze does not have yet, as it would have them."""
        topic = self.base.tail
        if topic is None or all(start >= end for start, end in topic.ranges.values()):
            return None
        spec = BronzeSpec(self.spec.bronze_path, self.base.bootstrap, (topic,), "reconcile", login=self.base.login)
        with kafka_ranges.refusals_named((spec.bootstrap, spec.login)):
            drafts = batch_records.drafts(kafka_ranges.read(self.session, spec, (topic,)), (topic,)).transform(compute_once)
        rows, _ = assign_positions(drafts, count_groups(drafts, (topic,)), self.base.committed)
        rows = rows.select(*BRONZE_NAMES)
        return rows.where(~sf.col("op").eqNullSafe("m") & sf.col("value").isNotNull())

    @cached_property
    def _facts(self) -> tuple[int, str | None]:
        """How many events there are, and the position of the newest TRUNCATE among those that the cut sees."""
        if not self.base.has_news(self.spec.table):
            return 0, None
        facts = self.events.agg(
            sf.count("*").alias("events"),
            sf.max(sf.when((sf.col("_cdc_op") == "t") & ~sf.col("hidden"), sf.col(POSITION))).alias("truncated"),
            sf.count_if(self._is_undecided()).alias("undecided"),
        ).collect()[0]
        if facts.undecided:
            raise JobRefusedError("a snapshot of the table is on its way to the lake: run it again once it has arrived")
        if facts.truncated is not None and self.spec.truncate not in ("apply", "soft"):
            raise JobRefusedError(f"the source was truncated, and the table is declared with truncate: {self.spec.truncate}")
        return facts.events, facts.truncated

    @property
    def truncated(self) -> str | None:
        """The position of the newest TRUNCATE among the events that the cut sees."""
        return self._facts[1]

    def rows(self) -> DataFrame:
        """The rows at the cut: c0, c1, ..., the meta columns, and `hidden`: silver's row shows what the cut does not see."""
        silver = self.silver
        if self.truncated is not None:
            silver = silver.where(sf.col(POSITION) > self.truncated)
        if self._epoch is not None:
            silver = silver.where(sf.col(POSITION) > self._epoch)
        silver = silver.withColumn("hidden", self._hidden(sf.lit(True)))
        if not self.spec.keys:
            silver = silver.where(~sf.col("hidden"))
        if not self._facts[0]:
            return silver.where(~sf.col("gone")).drop("gone")
        if not self.spec.keys:
            seen = self._visible_changes().transform(compute_once)
            kept = silver.where(~sf.col("gone")).drop("gone")
            rows = kept.unionByName(seen.where("_cdc_op <> 'd'").withColumn("hidden", sf.lit(False)).select(kept.columns))
            return keyless_tables.remaining_rows(rows, seen.where("_cdc_op = 'd'"), self.spec) if self.spec.multiset else rows
        fresh = self._visible_changes()
        keys = fresh.select(*key_slots(self.spec)).distinct().transform(compute_once)
        held_rows = _of(silver, keys, self.spec, "left_semi")
        fit = {"topic": sf.lit(OF_TABLE), "absent": sf.lit(None).cast("array<int>"), "problem": sf.lit(None).cast(PROBLEM)}
        base = held_rows.where(~sf.col("hidden")).drop("gone", "hidden").withColumns(fit)
        folded = fold_per_key(base.unionByName(fresh.select(base.columns)).transform(compute_once), self.spec)
        folded = folded.where(~sf.col("_cdc_op").isin("d", "t")).withColumn("hidden", sf.lit(False))
        kept = (
            _of(silver.where(~sf.col("gone")), keys, self.spec, "left_anti").unionByName(held_rows.where("hidden")).drop("gone")
        )
        return kept.unionByName(folded.select(kept.columns))

    def _visible_changes(self) -> DataFrame:
        """The events that the cut sees and that can be folded, in the columns of changes."""
        truncated = self.truncated if self.spec.truncate in ("apply", "soft") else None
        limit = max(filter(None, (truncated, self._epoch)), default=None)
        return _less_hidden(after_truncate(self.events, limit), self.spec).where(sf.col("problem").isNull())

    def from_bronze(self, keys: Sequence[str]) -> DataFrame:
        """The rows of these keys (texts) folded from everything that bronze and the topic hold, up to the cut.

        `hides`: the key has events that the cut does not see. `set_aside`: its newest one that can be told cannot be folded, so
        that it is in quarantine.
        """
        everything = table_events(self.session, self.spec, self.base.committed.version).select(*BRONZE_NAMES)
        everything = rows_of_keys(everything, self.row_text, keys)
        tail = self._tail()
        rows = everything if tail is None else everything.unionByName(tail)
        changes = self._mark_hidden(rows)
        if self.base.folded.quarantined:
            changes = quarantine_table.without_dropped(self.session, self.spec, changes)
        limit = max(filter(None, (self._held.truncated, self.truncated, self._epoch)), default=None)
        own = after_truncate(changes, limit).withColumn("key", self.row_text.key())
        key_frame = self.session.createDataFrame([(key,) for key in sorted(set(keys))], "key string")
        own = own.join(sf.broadcast(key_frame), "key", "left_semi").transform(compute_once)
        seen = mark_problems(_less_hidden(own, self.spec).drop("key"), self.spec)
        folded = fold_per_key(seen, self.spec).where(~sf.col("_cdc_op").isin("d", "t"))
        hides = own.groupBy("key").agg(sf.bool_or("hidden").alias("hides"))
        facts = hides.join(self._set_aside(seen), "key", "left")
        return folded.withColumn("key", self.row_text.key()).join(facts, "key", "full_outer")

    def _set_aside(self, judged: DataFrame) -> DataFrame:
        fit, position = sf.col("problem").isNull(), sf.coalesce(sf.col(POSITION), sf.lit("~"))
        newest, folded = sf.max(sf.when(~fit, position)), sf.coalesce(sf.max(sf.when(fit, position)), sf.lit(""))
        keyed = judged.withColumn("key", self.row_text.key())
        return keyed.groupBy("key").agg(sf.coalesce(newest > folded, sf.lit(False)).alias("set_aside"))


def _mark_of_gone(table: DataFrame) -> Expression:
    """Whether a row is marked as deleted: named once the table's own columns are c0, c1, ..., since one may be `gone`."""
    marked = sf.coalesce(sf.col(DELETED), sf.lit(False)) if DELETED in table.columns else sf.lit(False)
    return marked.alias("gone")


def _of(rows: DataFrame, keys: DataFrame, spec: SilverSpec, how: str) -> DataFrame:
    names = key_slots(spec)
    renamed = keys.select(*[sf.col(k).alias(f"w_{k}") for k in names])
    same = [sf.col(k).eqNullSafe(sf.col(f"w_{k}")) for k in names]
    return rows.join(sf.broadcast(renamed), same, how)


def _less_hidden(changes: DataFrame, spec: SilverSpec) -> DataFrame:
    """Less the hidden events, and less the rows of incremental snapshots that reflect one."""
    before = Window.partitionBy(*key_slots(spec), "topic", "partition").orderBy("offset")
    if not spec.keys:
        return changes.where(~sf.col("hidden")).drop("hidden")
    after_hidden = sf.coalesce(sf.max("hidden").over(before.rowsBetween(Window.unboundedPreceding, -1)), sf.lit(False))
    marked = changes.withColumn("after_hidden", after_hidden)
    reflects = sf.col("after_hidden") & (sf.col("_cdc_op") == "r")
    return marked.where(~sf.col("hidden") & ~reflects).drop("hidden", "after_hidden")
