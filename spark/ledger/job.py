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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.delta import plans
from spark.delta.conflicts import run_again
from spark.delta.lease import lend_object_to_spark
from spark.delta.log import commit_of, fold_history
from spark.kafka.offset_ranges import refusals_named
from spark.ledger import appends, counts, panes, unsettled
from spark.ledger.folds import Fold, FoldsToCount, folds, next_slice
from spark.ledger.ledger_commits import Counted, LedgerState, fold_ledger, ledger_metadata
from spark.ledger.links import count_links
from spark.ledger.spec import LedgerSpec, LedgerTable
from spark.ledger.topic_counts import Transport
from spark.ledger.windows import pane
from spark.specs import JobResult

PROPERTIES = {"delta.checkpointInterval": "100", "delta.enableDeletionVectors": "false"}
APP = "cdc_assets.ledger"


@dataclass(frozen=True)
class Booked:
    """One table's part of a run."""

    rows: pa.Table
    counted: Counted
    left: int
    kept: str = ""
    """Why the topics were not counted anew, where that was asked."""


def run(session: SparkSession, spec: LedgerSpec) -> JobResult:
    """Bring the ledger up to what silver has folded; more than one commit where it is far behind."""
    started = time.monotonic()
    totals: dict[str, int] = {}
    version: int | None = None
    kept: dict[str, str] = {}
    while True:
        with (
            lend_object_to_spark(spec.path),
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
    found = {t.name: part for t in spec.tables if (part := table_news(session, spec, t, state, appended)) is not None}
    return (commit(session, spec, state, found) if found else None), found


def table_news(
    session: SparkSession, spec: LedgerSpec, table: LedgerTable, state: LedgerState, appended: Callable[[], list[appends.Append]]
) -> Booked | None:
    """What is new of one table; None when nothing is. `appended` gives bronze's appends."""
    silver, before = table.silver, state.tables.get(table.name)
    found = _folds(session, table, before if not spec.again else None)
    # Silver says how many records it ever set aside: of most tables nothing needs to be looked up.
    aside = bool(found and found[-1].quarantined)
    again = before is not None and (
        spec.again or _has_lost_rows(table, before, found) or (aside and unsettled.has_changed(session, silver, before))
    )
    if again and not spec.again:
        found = _folds(session, table, None)
    cut = next_slice(found, before, again=again)
    if cut is None:
        return None
    known = sum(state.records for state in cut.start.folded.values()) if cut.start else 0
    plans.suit(session, events=sum(state.records for state in cut.last.topics.values()) - known)
    links = count_links(session, spec, table, cut, before)
    moved = links.moved
    try:
        times = appends.time_of_append(appended(), table.name, cut)
        sums = _slice_sums(session, spec, table, cut, times)
        back = panes.link_sums(session, spec.path, table.name, [*moved.links]) if links.anew else None
        told = panes.complete(panes.with_links(sums, moved, back)).toArrow()
    finally:
        moved.release()
    counted = _place(cut.last, moved, max(pc.max(told["newest"]).as_py() or 0, before.watermark if before else 0))
    if aside:
        counted = replace(counted, unsettled=unsettled.signature(session, silver, counted))
    return Booked(told, counted, cut.left, links.kept)


def _place(last: Fold, moved: Transport, watermark: int) -> Counted:
    """Up to where the ledger has counted: in silver, and in the topics' transport."""
    return Counted(
        silver_version=last.version,
        operation_id=last.operation_id,
        folded=last.topics,
        truncated=last.truncated,
        snapshot=last.snapshot,
        watermark=watermark,
        mirror_positions=moved.mirror_positions,
        topic_positions=moved.positions,
        topic_ids=moved.ids,
        uncounted=moved.uncounted,
        missing=moved.missing,
        unsettled="",
    )


def _slice_sums(
    session: SparkSession, spec: LedgerSpec, table: LedgerTable, cut: FoldsToCount, appended_at: Expression
) -> DataFrame:
    """The lake's counts of the slice by window; of one that is counted again, what differs from what was booked."""
    rows, earlier = counts.slice_rows(session, table.silver, cut)
    found = panes.wide(counts.count_windows(rows, cut, appended_at), counts.fates(session, table.silver, cut, rows, earlier))
    return panes.difference(found, panes.reversal(session, spec.path, table.name)) if cut.again else found


def _folds(session: SparkSession, table: LedgerTable, before: Counted | None) -> list[Fold]:
    """Silver's folds up to the cut, back to the ledger's place; none where another run has counted beyond the cut."""
    found = folds(session, table.silver.path, before.operation_id if before else None)
    if table.upto is None:
        return found
    beyond = [fold.operation_id for fold in found if fold.version > table.upto]
    return [] if before is not None and before.operation_id in beyond else [f for f in found if f.version <= table.upto]


def _has_lost_rows(table: LedgerTable, before: Counted, found: Sequence[Fold]) -> bool:
    """Whether a snapshot or a TRUNCATE has taken rows out of a table without a key since: their events were applied, and
    are not any more."""
    if table.silver.keys or not found:
        return False
    return (found[-1].snapshot, found[-1].truncated) != (before.snapshot, before.truncated)


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
