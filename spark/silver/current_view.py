"""A silver table as it will be once everything in bronze is folded: a DataFrame by the fold's own code, and nothing is
written.

Silver at one version and bronze at one version give the changes that the job would merge, and a query says what its
MERGE would make of them. Where silver is behind a change of the source's schema, its columns are those of its next
run, planned by spark.silver.schema_difference. What cannot be folded is left out, and a table known by whole rows
(`without_key: multiset`) has no view.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.errors import JobRefusedError
from spark.events.field_columns import order_of, orders_with
from spark.silver import fold_job as silver_job
from spark.silver import keyless_tables, row_completion, schema_difference, silver_table, spark_merge, table_generation
from spark.silver.column_ledger import ColumnLedger
from spark.silver.keyed_batch import SilverRun
from spark.silver.newest_event import not_of_keys
from spark.silver.schema_difference import SchemaPlan, holders, newest_value
from spark.silver.schema_evolution import at_birth, read_ledger
from spark.silver.typed_changes import lake_types, slot
from spark.specs import DELETED, META, Column, SilverSpec
from spark.table.commit_metadata import Committed, Folded, fold
from spark.table.delta_table import table_of
from spark.table.identifiers import quote
from spark.table.server_conf import session_conf
from spark.table.spark_session import compute_once
from spark.values.lake_types import lake_type
from spark.values.missing_values import missing_leaf


@dataclass(frozen=True)
class ColumnsAtCut:
    """`source` is the spec with the source's columns, `lake` with those of silver's next run, `plan` how they come about.

        silver at version V, events ─▶ the columns of silver's next run ─▶ the columns that the source has now

    The ledger in silver tells which columns it knows; what its next run makes of them is planned here by the same rules
    (spark.silver.schema_difference), and nothing is altered. So a renamed column is read under its old name where
    silver still has that, and events by the names and types that they may have been written under.
    """

    source: SilverSpec
    lake: SilverSpec
    plan: SchemaPlan

    @property
    def unheld(self) -> list[str]:
        """The source's columns whose values silver will not have."""
        return [c.name for c in self.source.columns if not self._holding(c)]

    def of_table(self, table: DataFrame, *more: str | Expression) -> DataFrame:
        """Silver's rows as its next run will find them: c0, c1, ... in the order of `lake`, and `more`."""
        values = [
            self._in_table(column, table.columns).cast(kind.name).alias(slot(i))
            for i, (column, kind) in enumerate(zip(self.lake.columns, lake_types(self.lake), strict=True))
        ]
        return table.select(*values, *more)

    def of_source(self, rows: DataFrame) -> DataFrame:
        """Rows in the columns of `lake`, in those of `source`; what silver does not have is NULL in all of them."""
        at = {c.name: i for i, c in enumerate(self.lake.columns)}
        places = [[at[c.name] for c in self._holding(column)] for column in self.source.columns]
        types = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
        values = [
            sf.expr(newest_value([(slot(i), types[slot(i)]) for i in columns], kind.name)).cast(kind.name).alias(slot(i))
            for i, (columns, kind) in enumerate(zip(places, lake_types(self.source), strict=True))
        ]
        own = {slot(i) for i in range(len(self.lake.columns))}
        rest = [_new_places(places) if name == "absent" else sf.col(name) for name in rows.columns if name not in own]
        return rows.select(*values, *rest)

    def _holding(self, column: Column) -> list[Column]:
        return holders(self.lake.columns, column.name)

    def _in_table(self, column: Column, present: Sequence[str]) -> Expression:
        taken = {new.name: olds for new, olds in self.plan.renamed}
        if column.name in taken:
            olds = [(quote(old.name), lake_type(old).name) for old in taken[column.name]]
            return sf.expr(newest_value(olds, lake_type(column).name))
        if column in self.plan.emptied or column.name not in present:
            missing = missing_leaf(column)
            return sf.lit(None) if missing is None else lake_type(column).convert(sf.lit(missing))
        return sf.col(quote(column.name))


def columns_at_cut(ledger: ColumnLedger | None, spec: SilverSpec, *, after: str) -> ColumnsAtCut:
    """Of a table with that ledger, which has folded up to the position `after`.

    Raises:
        TableStopError: the table stops at this change of the schema.
    """
    if ledger is None:
        return ColumnsAtCut(spec, spec, SchemaPlan(columns=[*spec.columns]))
    renewed, _ = table_generation.renew_generation(ledger, spec, after=after)
    planned = schema_difference.plan(renewed.columns, spec, after=after)
    orders = orders_with(renewed.orders, order_of(renewed.of_source()), order_of(spec.columns, after=after))
    keys = schema_difference.keys(planned.columns, spec)
    lake = replace(spec, columns=tuple(planned.columns), keys=keys, renewed=renewed.renewed, orders=orders)
    return ColumnsAtCut(spec, lake, planned)


def _new_places(places: Sequence[Sequence[int]]) -> Expression:
    """`absent` by the numbers of the source's columns."""
    is_absent = [sf.array_contains("absent", columns[0]) if columns else sf.lit(False) for columns in places]
    numbers = [sf.when(sf.coalesce(flag, sf.lit(False)), i) for i, flag in enumerate(is_absent)]
    listed = sf.array_compact(sf.array(*numbers))
    return sf.when(sf.size(listed) > 0, listed).alias("absent")


NEEDED = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.json.enableExactStringParsing")
"""Settings of a session by which values are read; the jobs' sessions have them (spark.table.spark_session)."""
_BROADCAST_UP_TO = 200_000
_LOOKS = 5


@dataclass(frozen=True)
class Moment:
    """A version of silver with what that has folded (None: there is no table yet), and what bronze has committed, read then."""

    version: int | None
    before: Folded | None
    committed: Committed


@dataclass(frozen=True)
class ViewRows:
    """The rows, in silver's columns as the next run has them (`spec`); `truncated` is the newest TRUNCATE that they have seen."""

    rows: DataFrame
    spec: SilverSpec
    truncated: str | None

    def in_slots(self, *more: str | Expression) -> DataFrame:
        """The same in the columns of changes, with `more` of the view's own."""
        return self.rows.select(*[sf.col(quote(c.name)).alias(slot(i)) for i, c in enumerate(self.spec.columns)], *more)


@dataclass(frozen=True)
class ReadOnlyRun(SilverRun):
    """A run that commits nothing, and leaves quarantine as it is; `table` is silver at its version."""

    table: DataFrame | None = None

    @property
    def silver(self) -> DataFrame:
        """The table at its version, in the columns that the next run gives it."""
        assert self.table is not None
        return self.table

    def set_aside(self, problems: DataFrame, events: DataFrame) -> int:
        """Nothing: the records are only left out."""
        return 0

    def supersede(self, source: DataFrame) -> None:
        """Nothing: only a job that commits does."""

    def obsolete(self, truncated: str) -> None:
        """Nothing: only a job that commits does."""

    def mark(self, seen: DataFrame) -> None:
        """Nothing: only a job that commits does."""


def rows_now(session: SparkSession, spec: SilverSpec) -> DataFrame:
    """The table's rows as they are now.

    Raises:
        JobRefusedError: the table has no view, or the session would read its values otherwise than the jobs.
        TableStopError: the table is declared to stop at what bronze holds.
    """
    _check_session(session)
    for _ in range(_LOOKS):
        ledger = read_ledger(session, spec) if table_of(spec.path).history(1) else None
        view = rows_at(session, spec, newest_moment(session, spec))
        if ledger is None or read_ledger(session, spec) == ledger:
            return view.rows
    raise JobRefusedError(f"table {spec.table}: its columns change faster than they are read; ask again")


def newest_moment(session: SparkSession, spec: SilverSpec) -> Moment:
    """Silver's newest version, and then bronze's."""
    newest = table_of(spec.path).history(1)
    version = newest[0].version if newest else None
    before = table_of(spec.path).silver_folded(up_to=version) if newest else None
    return Moment(version, before, table_of(spec.bronze_path).fold(fold))


def rows_at(session: SparkSession, spec: SilverSpec, moment: Moment) -> ViewRows:
    """The table's rows at that moment.

        silver at one version ─┐
        bronze at one version ─┴▶ the changes that the job would merge ─▶ what its MERGE would make of them, as a query

    Quarantine stays as it is. The rows are those of the two versions, whatever is committed later.
    """
    if spec.multiset:
        raise JobRefusedError(
            f"table {spec.table}: its rows are known by all of their values (without_key: multiset): read silver"
        )
    before, table = moment.before, None
    if before is None:
        spec = at_birth(spec)
    else:
        columns = columns_at_cut(read_ledger(session, spec), spec, after=before.highest)
        delta = session.read.format("delta").option("versionAsOf", moment.version).load(spec.path)
        own = [*META, *([DELETED] if DELETED in delta.columns else [])]
        spec = columns.lake
        names = {**{c.name: slot(i) for i, c in enumerate(spec.columns)}, **{name: name for name in own}}
        there = [*(name for name in delta.columns if name in names), *(name for name in names if name not in delta.columns)]
        table = columns.of_table(delta, *own).select(*[sf.col(names[name]).alias(name) for name in there])
        if silver_table.keeps_deleted_rows(spec) and DELETED not in own:
            table = table.withColumn(DELETED, sf.lit(None).cast("boolean"))
    silver_table.check_names(spec)
    silver_run = ReadOnlyRun(session, spec, moment.committed, before, uuid.uuid4().hex, table=table)
    truncated = before.truncated if before else None
    if before is not None and not silver_job.has_news(moment.committed.of_table(spec.table), before):
        return ViewRows(silver_run.silver, spec, truncated)
    return _rows_by_key(silver_run) if spec.keys else _rows_without_key(silver_run)


def _rows_by_key(silver_run: ReadOnlyRun) -> ViewRows:
    records = sum(silver_job.fresh(silver_run.committed.of_table(silver_run.spec.table), silver_run.before).values())
    own = silver_run.spec
    with silver_job.newest_batch(silver_run, records) as (run, newest, truncated):
        source, _ = row_completion.complete_changes(run, newest, truncated)
        if run.before is None:
            return ViewRows(spark_merge.rows_made(run.spec, source), own, truncated)
        newer = truncated if truncated != run.before.truncated else None
        # Whoever looks at the rows looks at the changes three times, and a comparison looks at the rows again and again.
        source = source.transform(compute_once)
        return ViewRows(_apply(run, source, newer, small=records <= _BROADCAST_UP_TO), own, truncated)


def _apply(silver_run: ReadOnlyRun, source: DataFrame, truncated: str | None, *, small: bool) -> DataFrame:
    """What the MERGE of these changes would leave in the table."""
    spec, table = silver_run.spec, silver_run.silver.alias("t")
    merge = spark_merge.clauses(spec, source.columns)
    changes = source.withColumn("here", sf.lit(True))
    changes = (sf.broadcast(changes) if small else changes).alias("s")
    joined = table.join(changes, sf.expr(merge.same), "left")
    newer = f"coalesce(s.here AND {merge.newer}, false)"
    if merge.deletes:
        joined = joined.where(sf.expr(f"NOT ({newer} AND s._cdc_op = 'd')"))
    values = {name: f"CASE WHEN {newer} THEN {value} ELSE t.{name} END" for name, value in merge.values}
    if truncated is not None:
        below = f"coalesce(s.here IS NULL AND {spark_merge.below_truncate(spec, truncated)}, false)"
        if spec.truncate == "soft":
            for name, value in spark_merge.values_of_truncate(truncated):
                values[name] = f"CASE WHEN {below} THEN {value} ELSE {values[name]} END"
        else:
            joined = joined.where(sf.expr(f"NOT {below}"))
    names = silver_run.silver.columns
    kept = joined.select(*[sf.expr(values.get(_name(n), f"t.{_name(n)}")).alias(n) for n in names])
    matched = table.join(changes, sf.expr(merge.same), "inner").select(*[f"s.{slot(_at(spec, key))}" for key in spec.keys])
    fresh = not_of_keys(source, matched, spec).alias("s").where(sf.expr(merge.makes_row))
    inserts = dict(merge.values)
    return kept.unionByName(fresh.select(*[sf.expr(inserts.get(_name(n), "NULL")).alias(n) for n in names]))


def _name(column: str) -> str:
    """As the MERGE's clauses write it."""
    return column if column in (*META, DELETED) else quote(column)


def _at(spec: SilverSpec, key: str) -> int:
    return [c.name for c in spec.columns].index(key)


def _rows_without_key(silver_run: ReadOnlyRun) -> ViewRows:
    with keyless_tables.fresh_rows(silver_run) as fresh:
        rows = silver_table.name_columns(fresh.rows, silver_run.spec)
        if silver_run.before is None:
            return ViewRows(rows, silver_run.spec, fresh.truncated)
        table, rows = silver_run.silver, rows.transform(compute_once)
        if fresh.risen:
            table = table.where(~sf.coalesce(sf.col("_cdc_position") < sf.lit(fresh.floor), sf.lit(False)))
        return ViewRows(table.unionByName(rows, allowMissingColumns=True), silver_run.spec, fresh.truncated)


def _check_session(session: SparkSession) -> None:
    conf = session_conf()
    other = [name for name in NEEDED if str(session.conf.get(name, None)).lower() != conf[name].lower()]
    if other:
        settings = ", ".join(f"{name}={conf[name]}" for name in other)
        raise JobRefusedError(f"this session reads values otherwise than the jobs do; set {settings}")


def register(session: SparkSession, spec: SilverSpec, name: str, *, everywhere: bool = False) -> None:
    """The rows of now as a temporary view; `everywhere`: for all sessions of the same Spark, as `global_temp.NAME`."""
    rows = rows_now(session, spec)
    (rows.createOrReplaceGlobalTempView if everywhere else rows.createOrReplaceTempView)(name)
