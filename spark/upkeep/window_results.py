"""Results of windows and their panes in their Delta tables, and what the commits say: the version of silver that they
are the result of.

Panes are written first, with the version of silver that they build on: a run that was killed before its results were
there, and is run again, puts its panes in the place of those.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.errors import HistoryTooShortError
from spark.table.commit_metadata import metadata_text, parse
from spark.table.delta_table import Commit, table_of
from spark.table.identifiers import quote, table_at
from spark.table.spark_session import compute_once, execute
from spark.upkeep.declared_windows import AFTER_FINAL, EARLY, END, FINAL, LATE, ON_TIME, PANE, SIGN, WindowedSpec

_KIND = "windowed"


@dataclass(frozen=True)
class KeptResults:
    """What a commit of results says: the version of silver that they are of, and its `mark` (DeltaTable.mark).

    watermark: microseconds since 1970, None where no row has an event time. digest: of the declaration.
    """

    silver_version: int
    mark: str
    watermark: int | None
    digest: str
    operation_id: str

    def to_metadata(self) -> str:
        """As the commit's userMetadata; the operation's id as spark.table.delta_table looks for it."""
        return metadata_text(_KIND, asdict(self))


def state_of_results(session: SparkSession, spec: WindowedSpec) -> KeptResults | None:
    """What the newest commit of ours says; None where there is no table.

    Raises:
        TableStopError: the table is none of ours.
    """

    def newest(commits: list[tuple[int, str | None]]) -> KeptResults | None:
        if (state := _newest(commits)) is not None:
            return state
        if commits and min(version for version, _ in commits) > 0:
            raise HistoryTooShortError(f"{spec.path}: no commit of windows among the newest {len(commits)}")
        if commits:
            table_of(spec.path).refuse_foreign()
        return None

    return table_of(spec.path).fold(newest)


def versions_here(spec: WindowedSpec) -> tuple[int, int] | None:
    """Silver's newest version, and the one that the results are of (-1: of none), without Spark; None where that is not told."""
    silver = table_of(spec.silver_path).commits(1)
    if not silver:
        return None
    kept = read_kept_results(spec.path)
    of_now = kept is not None and kept.digest == spec.digest
    return silver[0]["version"], kept.silver_version if kept is not None and of_now else -1


def read_kept_results(path: str) -> KeptResults | None:
    """What the newest commit of ours says, without Spark, however many of others came since; None where that is not told."""
    return next((state for state in map(_newest, table_of(path).looks()) if state is not None), None)


def _newest(commits: Iterable[tuple[int, str | None]]) -> KeptResults | None:
    for version, text in commits:
        if (facts := parse(text, _KIND, version)) is not None:
            return KeptResults(**{name: facts[name] for name in KeptResults.__dataclass_fields__})
    return None


PANES = (EARLY, ON_TIME, LATE, AFTER_FINAL)
_PROPERTIES = {"delta.checkpointInterval": "100", "delta.enableDeletionVectors": "false"}
_SECOND, _NOTHING = 1_000_000, -1


def begin_result_tables(session: SparkSession, spec: WindowedSpec, results: DataFrame, now: KeptResults) -> Commit:
    """Both tables anew, as they are declared now; `results` are read more than once."""
    panes = _as_panes(results, 1, pane_of(spec, None, now.watermark), _NOTHING, now)
    for rows, path in ((panes, spec.panes_path), (results, spec.path)):
        writer = rows.coalesce(1).write.format("delta").mode("overwrite").options(**_PROPERTIES)
        writer.option("overwriteSchema", "true").option("userMetadata", now.to_metadata()).save(path)
    return table_of(spec.path).find_commit(now.operation_id)


def write_changes(
    session: SparkSession, spec: WindowedSpec, changes: DataFrame, before: KeptResults, now: KeptResults
) -> tuple[Commit, dict[str, int]]:
    """The changes (window_refinement.refine_windows): into the log, then into the results; how many panes of each kind.

    Panes are written first, so what the table holds has been said. They carry the version of silver that the run builds
    on: a run that was killed before its results were there, and is run again, builds on the same one, and puts its
    panes in the place of those.
    """
    keys, figures = [quote(name) for name in spec.keys], [measure.name for measure in spec.measures]
    refined = changes.where(~_figures("_cdc_said", figures).eqNullSafe(_figures("_cdc_says", figures)))
    pane = pane_of(spec, before.watermark, now.watermark)
    taken = refined.where(sf.col("_cdc_said").isNotNull()).select(*keys, "_cdc_said.*")
    added = refined.where(sf.col("_cdc_says").isNotNull()).select(*keys, "_cdc_says.*")
    sides = [_as_panes(rows, sign, pane, before.silver_version, now) for rows, sign in ((taken, -1), (added, 1))]
    panes = sides[0].unionByName(sides[1]).transform(compute_once)
    writer = panes.coalesce(1).write.format("delta").mode("overwrite").option("userMetadata", now.to_metadata())
    writer.option("replaceWhere", f"built_on = {before.silver_version}").save(spec.panes_path)
    source = changes.select(*keys, sf.col("_cdc_says").isNull().alias("_cdc_gone"), "_cdc_says.*")
    view = f"cdc_windows_{now.operation_id}"
    execute(session, _merge(spec, source.columns, view), view=view, rows=source, metadata=now.to_metadata())
    counted = {row[PANE]: int(row["n"]) for row in panes.groupBy(PANE).agg(sf.count("*").alias("n")).collect()}
    return table_of(spec.path).find_commit(now.operation_id), {f"panes_{name}": counted.get(name, 0) for name in PANES}


def pane_of(spec: WindowedSpec, before: int | None, after: int | None) -> Expression:
    """By which trigger a result is said (Akidau et al. 2015), from the watermark before and after this run."""
    if after is None:
        return sf.lit(EARLY)
    end = sf.unix_micros(END)
    if before is None:
        return sf.when(end > after, EARLY).otherwise(ON_TIME)
    closed = sf.when(end > before, ON_TIME).when(end + spec.allowed_lateness * _SECOND > before, LATE).otherwise(AFTER_FINAL)
    return sf.when(end > after, EARLY).otherwise(closed)


def _figures(side: str, names: list[str]) -> Expression:
    return sf.when(sf.col(side).isNotNull(), sf.struct(*[sf.col(side).getField(name).alias(name) for name in names]))


def _as_panes(results: DataFrame, sign: int, pane: Expression, built_on: int, now: KeptResults) -> DataFrame:
    """Results as the log has them."""
    return results.drop(FINAL).withColumns(
        {
            SIGN: sf.lit(sign),
            PANE: pane,
            "built_on": sf.lit(built_on).cast("bigint"),
            "silver_version": sf.lit(now.silver_version).cast("bigint"),
            "computed_at": sf.now(),
        }
    )


def _merge(spec: WindowedSpec, columns: list[str], view: str) -> str:
    values = [name for name in columns if name != "_cdc_gone"]
    same = " AND ".join(f"t.{quote(name)} <=> s.{quote(name)}" for name in spec.keys)
    sets = ", ".join(f"t.{quote(name)} = s.{quote(name)}" for name in values if name not in spec.keys)
    names, taken = ", ".join(map(quote, values)), ", ".join(f"s.{quote(name)}" for name in values)
    return (
        f"MERGE INTO {table_at(spec.path)} t USING {view} s ON {same} WHEN MATCHED AND s._cdc_gone THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {sets} WHEN NOT MATCHED AND NOT s._cdc_gone THEN INSERT ({names}) VALUES ({taken})"
    )
