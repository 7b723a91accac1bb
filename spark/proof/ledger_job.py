"""The ledger's one job: what silver has folded since the ledger's place, counted in every link, appended as one commit.

Rows are panes: what this run adds to a window, whose count is the sum of its panes, so that a late event refines it
without rewriting. Small slices are counted together, all others one by one by Spark, of any size and whatever became
of their records. The place is in the commit that holds the rows: killed anywhere, the job is run again, and of two
runs at once Delta refuses the second.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.events.kafka_source import refusals_named
from spark.proof import ledger_fates, ledger_folds, ledger_rows
from spark.proof.ledger_contract import LedgerSpec, LedgerState, fold_ledger, ledger_metadata
from spark.proof.ledger_folds import TableSlice, table_slice
from spark.proof.ledger_rows import Booked, place_behind
from spark.proof.ledger_small_slices import count_small
from spark.proof.ledger_topic_counts import count_links, pane
from spark.specs import JobResult
from spark.table import spark_plans
from spark.table.delta_table import table_of
from spark.table.spark_failures import run_again
from spark.table.write_lease import lend_to_spark


def count_slice(
    session: SparkSession, spec: LedgerSpec, new_slice: TableSlice, appended: Callable[[], list[ledger_folds.TopicShares]]
) -> Booked:
    """What the slice adds to the ledger. `appended` gives bronze's appends."""
    table = new_slice.table
    spark_plans.suit(session, events=new_slice.records)
    links = count_links(session, spec, table, new_slice.cut, new_slice.before)
    moved = links.moved
    try:
        sums = _sums(session, spec, new_slice, ledger_folds.time_of_append(appended(), table.name, new_slice.cut))
        back = ledger_rows.link_sums(session, spec.path, table.name, [*moved.links]) if links.anew else None
        rows = ledger_rows.complete(ledger_rows.with_links(sums, moved, back)).toArrow()
    finally:
        moved.release()
    counted = place_behind(new_slice, moved.reached, pc.max(rows["newest"]).as_py() or 0)
    if new_slice.aside:
        counted = replace(counted, unsettled=ledger_folds.quarantine_digest(session, table.silver, counted))
    return Booked(rows.cast(ledger_rows.ARROW), counted, new_slice.cut.left, links.kept)


def _sums(session: SparkSession, spec: LedgerSpec, new_slice: TableSlice, appended_at: Expression) -> DataFrame:
    """The lake's counts of the slice by window; of one that is counted again, what differs from what was booked."""
    silver, cut = new_slice.table.silver, new_slice.cut
    rows, earlier = ledger_fates.slice_rows(session, silver, cut)
    windows = ledger_rows.wide(
        ledger_fates.count_windows(rows, cut, appended_at), ledger_fates.fates(session, silver, cut, rows, earlier)
    )
    return ledger_rows.difference(windows, ledger_rows.reversal(session, spec.path, silver.table)) if cut.again else windows


PROPERTIES = {"delta.checkpointInterval": "100", "delta.enableDeletionVectors": "false"}
APP = "cdc_assets.ledger"


def run(session: SparkSession, spec: LedgerSpec) -> JobResult:
    """Bring the ledger up to what silver has folded; more than one commit where it is far behind.

    Rows are panes: what this run adds to a window, by op, and by which trigger. A window's count is the sum of its
    panes, so a late event refines it without rewriting, and what was said before stays readable. What an earlier pane
    said wrongly by today's knowledge (a record redriven from quarantine, a silver table restored) is taken back by
    negative numbers.

    Two runs at once cannot both count: the commit carries a Delta transaction number, and the second is refused.
    """
    started = time.monotonic()
    totals: dict[str, int] = {}
    version: int | None = None
    kept: dict[str, str] = {}
    while True:
        with (
            lend_to_spark(spec.path),
            refusals_named((spec.lake_bootstrap, spec.lake_login), (spec.core_bootstrap, spec.core_login)),
        ):
            done, booked = run_again(partial(_step, session, spec))
        version = done if done is not None else version
        for name in ledger_rows.COUNTS:
            totals[name] = totals.get(name, 0) + sum(pc.sum(share.rows[name]).as_py() or 0 for share in booked.values())
        kept |= {name: share.kept for name, share in booked.items() if share.kept}
        spec = replace(spec, again=False)
        if not any(share.left for share in booked.values()):
            return _result(version, totals, kept, started)


def _step(session: SparkSession, spec: LedgerSpec) -> tuple[int | None, Mapping[str, Booked]]:
    state = table_of(spec.path).fold(fold_ledger)
    appended = cache(partial(ledger_folds.newest_appends, session, spec.bronze_path))
    parts = [new_slice for table in spec.tables if (new_slice := table_slice(session, spec, table, state)) is not None]
    booked = count_small(session, spec, parts, appended)
    booked |= {
        new_slice.name: count_slice(session, spec, new_slice, appended) for new_slice in parts if new_slice.name not in booked
    }
    return (commit(session, spec, state, booked) if booked else None), booked


def commit(session: SparkSession, spec: LedgerSpec, state: LedgerState, booked_by_table: Mapping[str, Booked]) -> int:
    """Append what was found; the version of the commit.

    Raises:
        CommitLeftOutError: another run has committed since `state`; nothing is appended.
    """
    operation_id = uuid.uuid4().hex
    named = [
        share.rows.append_column("table", pa.array([t] * share.rows.num_rows, pa.string()))
        for t, share in booked_by_table.items()
    ]
    rows = pa.concat_tables(named)
    local = session.createDataFrame(rows) if rows.num_rows else session.createDataFrame([], ledger_rows.UNNAMED)
    before = {t: state.tables[t].watermark if t in state.tables else 0 for t in booked_by_table}
    after = {t: share.counted.watermark for t, share in booked_by_table.items()}
    booked = local.withColumns(
        {
            "window_start": sf.timestamp_seconds("window"),
            "op": sf.col("kind"),
            "pane": pane(_of_table(before), _of_table(after), spec.allowed_lateness),
            "counted_at": sf.current_timestamp(),
        }
    )
    metadata = ledger_metadata(operation_id, {**state.tables, **{t: share.counted for t, share in booked_by_table.items()}})
    writer = booked.select(*ledger_rows.COLUMNS).coalesce(1).sortWithinPartitions("table", "window_start").write.format("delta")
    writer = writer.mode("append").option("userMetadata", metadata)
    # A commit of the same number by another run: Delta refuses the one (conflict), or leaves the other out (no commit of ours).
    writer = writer.option("txnAppId", APP).option("txnVersion", state.version + 1)
    if state.version < 0:
        writer = writer.options(**PROPERTIES)
    writer.save(spec.path)
    return table_of(spec.path).find_commit(operation_id, rows=rows.num_rows).version


def _of_table(values: Mapping[str, int]) -> Expression:
    return sf.create_map(*[sf.lit(x) for pair in values.items() for x in pair])[sf.col("table")]


def _result(version: int | None, totals: Mapping[str, int], kept: Mapping[str, str], started: float) -> JobResult:
    bronze, seconds = totals.get("bronze", 0), round(time.monotonic() - started, 3)
    detail = {**totals, "not_anew": dict(kept)} if kept else dict(totals)
    return JobResult("ledger", None, version, bronze, bronze, 0, 0, {}, {}, seconds, detail)
