"""A silver table as it will be once everything in bronze is folded: a DataFrame by the fold's own code, and nothing is written.

    silver at one version ─┐
    bronze at one version ─┴▶ the changes that the job would merge ─▶ what its MERGE would make of them, as a query

What cannot be folded is left out, as silver leaves it out; quarantine stays as it is. The rows are those of the two versions,
whatever is committed later. A table known by whole rows (`without_key: multiset`) has no view.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.delta.cluster import compute_once
from spark.delta.commits import Committed, Folded, fold
from spark.delta.identifiers import quote
from spark.delta.log import fold_history, history, silver_folded
from spark.delta.server_conf import session_conf
from spark.errors import NoViewError
from spark.schema.evolution import at_birth, read_ledger
from spark.silver import completion, keyless, merge
from spark.silver import job as silver_job
from spark.silver import table as silver_table
from spark.silver.batch import SilverRun
from spark.silver.changes import slot
from spark.silver.columns_at_cut import columns_at_cut
from spark.silver.fold import not_of_keys
from spark.specs import DELETED, META, SilverSpec

NEEDED = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.json.enableExactStringParsing")
"""Settings of a session by which values are read; the jobs' sessions have them (spark.delta.session)."""
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
        NoViewError: the table has no view, or the session would read its values otherwise than the jobs.
        UnsupportedEventError: the table is declared to stop at what bronze holds.
    """
    _check_session(session)
    for _ in range(_LOOKS):
        ledger = read_ledger(session, spec) if history(session, spec.path, 1) else None
        found = rows_at(session, spec, look(session, spec))
        if ledger is None or read_ledger(session, spec) == ledger:
            return found.rows
    raise NoViewError(f"table {spec.table}: its columns change faster than they are read; ask again")


def look(session: SparkSession, spec: SilverSpec) -> Moment:
    """Silver's newest version, and then bronze's."""
    newest = history(session, spec.path, 1)
    version = newest[0].version if newest else None
    before = silver_folded(session, spec.path, up_to=version) if newest else None
    return Moment(version, before, fold_history(session, spec.bronze_path, fold))


def rows_at(session: SparkSession, spec: SilverSpec, moment: Moment) -> ViewRows:
    """The table's rows at that moment."""
    if spec.multiset:
        raise NoViewError(f"table {spec.table}: its rows are known by all of their values (without_key: multiset): read silver")
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
        if silver_table.soft(spec) and DELETED not in own:
            table = table.withColumn(DELETED, sf.lit(None).cast("boolean"))
    silver_table.check_names(spec)
    work = ReadOnlyRun(session, spec, moment.committed, before, uuid.uuid4().hex, table=table)
    known = before.truncated if before else None
    if before is not None and not silver_job.has_news(moment.committed.of_table(spec.table), before):
        return ViewRows(work.silver, spec, known)
    return _rows_by_key(work) if spec.keys else _rows_without_key(work)


def _rows_by_key(work: ReadOnlyRun) -> ViewRows:
    records = sum(silver_job.fresh(work.committed.of_table(work.spec.table), work.before).values())
    own = work.spec
    with silver_job.newest_batch(work, records) as (run, found, truncated):
        source, _ = completion.complete_changes(run, found, truncated, looked_up=True)
        if run.before is None:
            rows = source if silver_table.soft(run.spec) else source.where(sf.col("_cdc_op") != "d")
            return ViewRows(silver_table.name_columns(rows, run.spec), own, truncated)
        newer = truncated if truncated != run.before.truncated else None
        # Whoever looks at the rows looks at the changes three times, and a comparison looks at the rows again and again.
        source = source.transform(compute_once)
        return ViewRows(_apply(run, source, newer, small=records <= _BROADCAST_UP_TO), own, truncated)


def _apply(work: ReadOnlyRun, source: DataFrame, truncated: str | None, *, small: bool) -> DataFrame:
    """What the MERGE of these changes would leave in the table."""
    spec, table = work.spec, work.silver.alias("t")
    said = merge.clauses(spec, source.columns)
    changes = source.withColumn("here", sf.lit(True))
    changes = (sf.broadcast(changes) if small else changes).alias("s")
    joined = table.join(changes, sf.expr(said.same), "left")
    newer = f"coalesce(s.here AND {said.newer}, false)"
    if said.deletes:
        joined = joined.where(sf.expr(f"NOT ({newer} AND s._cdc_op = 'd')"))
    values = {name: f"CASE WHEN {newer} THEN {value} ELSE t.{name} END" for name, value in said.updates}
    if truncated is not None:
        below = f"coalesce(s.here IS NULL AND {merge.below_truncate(spec, truncated)}, false)"
        if spec.truncate == "soft":
            for name, value in merge.values_of_truncate(truncated):
                values[name] = f"CASE WHEN {below} THEN {value} ELSE {values[name]} END"
        else:
            joined = joined.where(sf.expr(f"NOT {below}"))
    names = work.silver.columns
    kept = joined.select(*[sf.expr(values.get(_name(n), f"t.{_name(n)}")).alias(n) for n in names])
    found = table.join(changes, sf.expr(said.same), "inner").select(*[f"s.{slot(_at(spec, key))}" for key in spec.keys])
    fresh = not_of_keys(source, found, spec).alias("s").where(sf.expr(said.wanted))
    inserts = dict(said.inserts)
    return kept.unionByName(fresh.select(*[sf.expr(inserts.get(_name(n), "NULL")).alias(n) for n in names]))


def _name(column: str) -> str:
    """As the MERGE's clauses write it."""
    return column if column in (*META, DELETED) else quote(column)


def _at(spec: SilverSpec, key: str) -> int:
    return [c.name for c in spec.columns].index(key)


def _rows_without_key(work: ReadOnlyRun) -> ViewRows:
    with keyless.fresh(work) as found:
        rows = silver_table.name_columns(found.rows, work.spec)
        if work.before is None:
            return ViewRows(rows, work.spec, found.truncated)
        table, rows = work.silver, rows.transform(compute_once)
        if found.risen:
            table = table.where(~sf.coalesce(sf.col("_cdc_position") < sf.lit(found.floor), sf.lit(False)))
        return ViewRows(table.unionByName(rows, allowMissingColumns=True), work.spec, found.truncated)


def _check_session(session: SparkSession) -> None:
    wanted = session_conf()
    other = [name for name in NEEDED if str(session.conf.get(name, None)).lower() != wanted[name].lower()]
    if other:
        told = ", ".join(f"{name}={wanted[name]}" for name in other)
        raise NoViewError(f"this session reads values otherwise than the jobs do; set {told}")


def register(session: SparkSession, spec: SilverSpec, name: str, *, everywhere: bool = False) -> None:
    """The rows of now as a temporary view; `everywhere`: for all sessions of the same Spark, as `global_temp.NAME`."""
    rows = rows_now(session, spec)
    (rows.createOrReplaceGlobalTempView if everywhere else rows.createOrReplaceTempView)(name)
