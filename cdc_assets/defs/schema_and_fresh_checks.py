"""The checks `schema` and `fresh` of a silver table, which compare no rows.

`schema` is red where no later run can fold the table: its columns and those of the source contradict each other, and the table
stands until somebody does what the check says. A change by the table's policy is no fault. It warns of what a value or a replay
is needed for, and of a table that is declared portable and is not.

`fresh` compares when the table last held all there is with the declared `freshness`. A fold says so, and so does the offsets
sensor of a table at rest, without a run: Dagster's own freshness policy counts materializations alone, and a table at rest has
none (ADR 125).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import dagster as dg

from cdc_assets.capture.source_columns import rows_with_old_members
from cdc_assets.chain.table_drift import portability_findings, replay_offer
from cdc_assets.clients.schema_ledger import ledger_of, rows_up_to, rows_without_value
from cdc_assets.defs.asset_specs import UPDATED
from cdc_assets.defs.asset_steps import CheckRun, check_step
from cdc_assets.defs.check_results import check_result, evaluation_of
from cdc_assets.defs.check_specs import FRESH, SCHEMA
from cdc_assets.defs.instance_runs import last_materializations
from cdc_assets.registry import names
from cdc_assets.registry.display_text import in_markdown, lines_in_markdown
from cdc_assets.registry.field_types import TableId, format_duration
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity
from spark.silver.column_ledger import ColumnLedger, diff, place_of

if TYPE_CHECKING:
    from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord

WARN = dg.AssetCheckSeverity.WARN


def schema_result(lake: str, source: BaseSource, table: Table, refusal: str = "") -> dg.AssetCheckResult:
    """From the ledger in the table; `refusal`: why no run can fold it (cdc_assets.chain.fold_specs).

    Red where no later run can fold the table: its columns and those of the source contradict each other, and the table stands
    until somebody does what the check says. A change by the table's policy is no fault. It warns as long as a column that was
    added with a default that the catalogue no longer tells has NULLs in rows from before, as long as rows are left of a table
    that was dropped and made again, and as long as rows have labels that their enum has renamed or lost
    (cdc_assets.capture.source_columns). It warns where the table was folded by other rules than those of the registry, and a
    replay would make another table. It also warns of a table that is declared portable, and that some readers cannot read.
    """
    path, key = names.silver_path(lake, source, table), SCHEMA.key(source, table)
    ledger = ledger_of(path)
    if ledger is None or not ledger.history:
        return check_result(key, True, "there is no table yet, or none with a schema ledger", {}, severity=WARN)
    if refusal:
        return check_result(key, False, f"silver stands, no run can fold it: {refusal}", _schema_metadata(ledger))
    findings = [*_rows_from_before(source, table, path, ledger), *filter(None, [replay_offer(lake, source, table, ledger)])]
    findings += [*rows_with_old_members(source, table, path, ledger), *portability_findings(lake, source, table)]
    last = ledger.history[-1]
    what = "; ".join(findings) or f"schema {last.version} since {last.at}: {'; '.join(diff(last))}"
    return check_result(key, not findings, what, _schema_metadata(ledger), severity=WARN)


def schema_news(
    instance: dg.DagsterInstance, lake: str, source: BaseSource, tables: Sequence[Table], refusals: Mapping[TableId, str]
) -> Iterator[dg.AssetCheckEvaluation]:
    """What Dagster does not know of tables that a run has folded, or could not: those that stand now, and those that go on."""
    keys = [SCHEMA.key(source, table) for table in tables]
    latest = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    for key, table in zip(keys, tables, strict=True):
        refusal, last = refusals.get(table.id, ""), _evaluation(latest.get(key))
        stood = last is not None and not last.passed and last.severity == dg.AssetCheckSeverity.ERROR
        if refusal or stood:
            yield evaluation_of(schema_result(lake, source, table, refusal))


def _evaluation(record: AssetCheckExecutionRecord | None) -> dg.AssetCheckEvaluation | None:
    event = record.event if record is not None else None
    evaluation = event.get_dagster_event().event_specific_data if event is not None and event.is_dagster_event else None
    return evaluation if isinstance(evaluation, dg.AssetCheckEvaluation) else None


def _rows_from_before(source: BaseSource, table: Table, path: str, ledger: ColumnLedger) -> Iterator[str]:
    """Rows of a table that was another one, and rows without a value that the source may have."""
    renewals = ledger.renewals()
    old = rows_up_to(path, renewals[-1]) if renewals else 0
    if old != 0:
        rows = "some rows" if old is None else f"at least {quantity(old, 'row')}"
        yield _what_remains(ledger, rows, _way_out(source, table, ledger))
    waiting = {c: n for c, after in ledger.gaps_by_column().items() if (n := rows_without_value(path, c, after)) != 0}
    if waiting:
        columns = ", ".join(f"{c} ({'rows unknown' if n is None else quantity(n, 'row')})" for c, n in waiting.items())
        yield f"older rows have no value in {columns}: have Debezium read the table again (an incremental snapshot)"


def _way_out(source: BaseSource, table: Table, ledger: ColumnLedger) -> str:
    """What takes the rows of a table away that was dropped. Where the source's log tells of the DROP, bronze has the order."""
    if (table.schema_changes or source.schema_changes).drop_table == "evolve" and place_of(ledger.generation, ""):
        return f"cdc replay {source.name} {names.table_name(table)} takes them away, as drop_table: evolve says"
    return "have Debezium read it whole (docs/explanation/schema-changes.md), or declare drop_table: ignore"


def _what_remains(ledger: ColumnLedger, rows: str, way_out: str) -> str:
    """What became of the table at last, and how many rows are from before."""
    newest = [c for entry in ledger.history for c in entry.changes if c.kind in ("drop_table", "drop_partition")][-1]
    if newest.kind == "drop_table":
        return f"the table was dropped and made again at the source, and {rows} of the one before stayed: {way_out}"
    return (
        f"{newest.was} of the table: dropped, detached, truncated or rewritten at the source, which no event tells of; cdc "
        f"reconcile tells whether rows of theirs are left ({rows} may be): to take them away, have Debezium read the table whole "
        "(docs/explanation/schema-changes.md)"
    )


def _schema_metadata(ledger: ColumnLedger) -> dict[str, dg.MetadataValue]:
    last = ledger.history[-1]
    shown = "\n".join(
        f"**{entry.version}** {in_markdown(entry.at)}, after {in_markdown(entry.after or 'the start')}  \n"
        f"{lines_in_markdown(diff(entry))}\n"
        for entry in reversed(ledger.history)
    )
    return {
        "cdc/schema_version": dg.MetadataValue.int(last.version),
        "cdc/schema_since": dg.MetadataValue.text(last.at),
        "cdc/schema_after_position": dg.MetadataValue.text(last.after),
        "cdc/schema_changes": dg.MetadataValue.md(shown),
    }


@check_step("fresh", FRESH)
def fresh_check(run: CheckRun[Table]) -> Iterator[dg.AssetCheckResult]:
    """Of each table by when Dagster was told last that it holds all there is."""
    updates, now = last_updates(run.context.instance, [key.asset_key for key in run.selected]), time.time()
    for key, table in run.selected.items():
        yield fresh_result(run.chain.source, table, updates.get(key.asset_key), now)


def last_updates(instance: dg.DagsterInstance, keys: Sequence[dg.AssetKey]) -> dict[dg.AssetKey, float]:
    """When each asset was last materialized, or observed to hold all there is: in seconds since 1970."""
    updates = {key: event.timestamp for key, event in last_materializations(instance, keys).items()}
    for key in keys:
        for record in instance.fetch_observations(key, limit=1).records:
            if record.asset_observation is not None and UPDATED in record.asset_observation.metadata:
                updates[key] = max(updates.get(key, 0.0), record.timestamp)
    return updates


def fresh_result(source: BaseSource, table: Table, at: float | None, now: float) -> dg.AssetCheckResult:
    """Of a table that held all there was `at` last; None: it never did."""
    key, allowed = FRESH.key(source, table), table.freshness or source.freshness
    if at is None:
        return check_result(key, True, "nothing of the table is in silver yet", {})
    age = max(0.0, now - at)
    metadata = {UPDATED: dg.MetadataValue.timestamp(at), "cdc/fail_after": format_duration(allowed.fail_after)}
    fails = age >= allowed.fail_after.total_seconds()
    warns = allowed.warn_after is not None and age >= allowed.warn_after.total_seconds()
    since = datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    if not fails and not warns:
        return check_result(key, True, f"silver held all there was at {since}", metadata)
    severity = dg.AssetCheckSeverity.ERROR if fails else dg.AssetCheckSeverity.WARN
    text = f"silver has been behind since {since}: cdc get tables {source.name}"
    return check_result(key, False, text, metadata, severity=severity)
