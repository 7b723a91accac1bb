"""The ledger's one job: what silver has folded since the ledger's place, counted in every link, appended as one commit.

Rows are panes: what this run adds to a window, by op, and by which trigger. A window's count is the sum of its panes,
so a late event refines it without rewriting, and what was said before stays readable. What an earlier pane said wrongly
by today's knowledge (a record redriven from quarantine, a silver table restored) is taken back by negative numbers.

The place is in the commit that holds the rows: killed anywhere, the job is simply run again. Two runs at once cannot
both count: the commit carries a Delta transaction number, and the second is refused.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column as Expression
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from spark.delta.conflicts import run_again
from spark.delta.lease import lend_to_spark
from spark.delta.log import commit_of, fold_history
from spark.kafka.offset_ranges import refusals_named
from spark.ledger import appends, panes
from spark.ledger.booked import Booked
from spark.ledger.ledger_commits import LedgerState, fold_ledger, ledger_metadata
from spark.ledger.small_slices import count_small
from spark.ledger.spark_slices import count_slice
from spark.ledger.spec import LedgerSpec
from spark.ledger.table_slice import table_slice
from spark.ledger.windows import pane
from spark.specs import JobResult

PROPERTIES = {"delta.checkpointInterval": "100", "delta.enableDeletionVectors": "false"}
APP = "cdc_assets.ledger"


def run(session: SparkSession, spec: LedgerSpec) -> JobResult:
    """Bring the ledger up to what silver has folded; more than one commit where it is far behind."""
    started = time.monotonic()
    totals: dict[str, int] = {}
    version: int | None = None
    kept: dict[str, str] = {}
    while True:
        with (
            lend_to_spark(spec.path),
            refusals_named((spec.lake_bootstrap, spec.lake_login), (spec.core_bootstrap, spec.core_login)),
        ):
            done, found = run_again(partial(_step, session, spec))
        version = done if done is not None else version
        for name in panes.COUNTS:
            totals[name] = totals.get(name, 0) + sum(pc.sum(part.rows[name]).as_py() or 0 for part in found.values())
        kept |= {name: part.kept for name, part in found.items() if part.kept}
        spec = replace(spec, again=False)
        if not any(part.left for part in found.values()):
            return _result(version, totals, kept, started)


def _step(session: SparkSession, spec: LedgerSpec) -> tuple[int | None, Mapping[str, Booked]]:
    state = fold_history(session, spec.path, fold_ledger)
    appended = cache(partial(appends.appends, session, spec.bronze_path))
    parts = [part for table in spec.tables if (part := table_slice(session, spec, table, state)) is not None]
    found = count_small(session, spec, parts, appended)
    found |= {part.name: count_slice(session, spec, part, appended) for part in parts if part.name not in found}
    return (commit(session, spec, state, found) if found else None), found


def commit(session: SparkSession, spec: LedgerSpec, state: LedgerState, found: Mapping[str, Booked]) -> int:
    """Append what was found; the version of the commit.

    Raises:
        CommitNotFoundError: another run has committed since `state`; nothing is appended.
    """
    operation_id = uuid.uuid4().hex
    named = [part.rows.append_column("table", pa.array([t] * part.rows.num_rows, pa.string())) for t, part in found.items()]
    rows = pa.concat_tables(named)
    local = session.createDataFrame(rows) if rows.num_rows else session.createDataFrame([], panes.UNNAMED)
    before = {t: state.tables[t].watermark if t in state.tables else 0 for t in found}
    after = {t: part.counted.watermark for t, part in found.items()}
    booked = local.withColumns(
        {
            "window_start": sf.timestamp_seconds("window"),
            "op": sf.col("kind"),
            "pane": pane(_of_table(before), _of_table(after), spec.allowed_lateness),
            "counted_at": sf.current_timestamp(),
        }
    )
    metadata = ledger_metadata(operation_id, {**state.tables, **{t: part.counted for t, part in found.items()}})
    writer = booked.select(*panes.COLUMNS).coalesce(1).sortWithinPartitions("table", "window_start").write.format("delta")
    writer = writer.mode("append").option("userMetadata", metadata)
    # A commit of the same number by another run: Delta refuses the one (conflict), or leaves the other out (no commit of ours).
    writer = writer.option("txnAppId", APP).option("txnVersion", state.version + 1)
    if state.version < 0:
        writer = writer.options(**PROPERTIES)
    writer.save(spec.path)
    return commit_of(session, spec.path, operation_id, rows=rows.num_rows).version


def _of_table(values: Mapping[str, int]) -> Expression:
    return sf.create_map(*[sf.lit(x) for pair in values.items() for x in pair])[sf.col("table")]


def _result(version: int | None, totals: Mapping[str, int], kept: Mapping[str, str], started: float) -> JobResult:
    bronze, seconds = totals.get("bronze", 0), round(time.monotonic() - started, 3)
    detail = {**totals, "not_anew": dict(kept)} if kept else dict(totals)
    return JobResult("ledger", None, version, bronze, bronze, 0, 0, {}, {}, seconds, detail)
