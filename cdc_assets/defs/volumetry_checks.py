"""The checks that count and compare, a step per link: one marker and one snapshot of the source serve all its tables.

The connector and its tasks, records from the topic to bronze, rows of silver with the table's schema, and the backup's objects.
The rows of these checks stand in `check_specs`.

`reconciled` says the same of a table whichever way its rows were compared. Sources that are compared in two steps have a rhythm
of their own, since all rows travel each time; never at an exact cut, since MySQL's takes a global read lock. A table that could
not be compared is a warning of its own kind, and red only when it has lasted; a difference stays one until a comparison finds
none.

`history_reconciled` is apart: a wrong history must not turn silver red, nor hold up what reads silver. It asks nothing of the
source. `quarantine_empty` counts records that could not be folded: a row is in doubt while a record of its key is there and
nothing later says all of the row.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Any

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from cdc_assets.capture.connectors.config_difference import difference_of
from cdc_assets.capture.connectors.connector_inventory import COMMIT, connector_owners
from cdc_assets.capture.connectors.declared_connectors import declared_connectors
from cdc_assets.chain.fold_specs import refusals_now
from cdc_assets.chain.quarantine import QuarantinedRecord, quarantine_records
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs import check_results
from cdc_assets.defs.asset_steps import CheckRun, check_step
from cdc_assets.defs.check_results import Evidence, check_result, evaluation_of, previous_tallies, shorten
from cdc_assets.defs.check_specs import (
    CONNECTOR_RUNNING,
    HISTORY_RECONCILED,
    MANIFEST_PARITY,
    QUARANTINE_EMPTY,
    RECONCILED,
    RECONCILED_IN_STEPS,
    RECORD_PARITY,
    SCHEMA,
)
from cdc_assets.defs.schema_and_fresh_checks import schema_result
from cdc_assets.proof import compared_slices, history_proof
from cdc_assets.proof.chain_verdicts import AT_KEY, PART_KEY, POSITION_KEY, RowsCompared, of_metadata
from cdc_assets.proof.compared_slices import share_at
from cdc_assets.proof.compared_table import Share
from cdc_assets.proof.comparison import compare_parts
from cdc_assets.proof.comparison_result import DIFFERENT, INCONCLUSIVE, HistoryDifference, HistoryResult, TableResult
from cdc_assets.proof.volumetry import measure_transport
from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import CdcAssetsError, MissingAddressError
from cdc_assets.registry.field_types import format_duration
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity

SINCE_KEY, DIFFERED_KEY = "cdc/not_compared_since", "cdc/differed_before"
_TOLD = {AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED}


@dataclass(frozen=True)
class Uncompared:
    """Since when, whether the comparison before that (`last`) had found a difference, and how long it may last (`red_after`).

    `red_after` None: for ever, of a table that nobody has asked to be compared, and that never was.

    Since when is kept in the check's own evaluations, and so is when and up to where the rows were compared before that. What
    the last comparison found is not forgiven meanwhile: a difference stays one until a comparison finds none.
    """

    since: datetime
    differed: bool
    red_after: timedelta | None
    last: RowsCompared | None = None

    def severity(self, now: datetime) -> dg.AssetCheckSeverity:
        """An error when it has lasted, or would hide a difference."""
        return dg.AssetCheckSeverity.ERROR if self.differed or self._has_lasted(now) else dg.AssetCheckSeverity.WARN

    def _has_lasted(self, now: datetime) -> bool:
        return self.red_after is not None and now - self.since >= self.red_after

    def sentence(self, result: TableResult, now: datetime) -> str:
        """What stands in the way, that it is no difference, and what to do."""
        since = f"{self.since:%Y-%m-%d %H:%M} UTC"
        command = f"cdc reconcile {result.table.replace('/', '.')}"
        if self.differed:
            return f"{result.sentence()}. The last comparison, before {since}, found a difference: {command}"
        if self._has_lasted(now):
            return f"{result.sentence()}. No difference was found, but this lasts since {since}: mend it, then {command}"
        if self.red_after is None:
            way = "mend it, or declare reconciliation: {every: never}"
            return f"{result.sentence()}. Its rows were never compared, which is tried again each time: {command}; {way}"
        red = f"red after {format_duration(self.red_after)}"
        return f"{result.sentence()}. No difference was found; it is tried again (since {since}, {red}): {command}"

    def metadata(self) -> dict[str, Any]:
        """By which the next evaluation knows."""
        metadata: dict[str, Any] = {SINCE_KEY: dg.MetadataValue.timestamp(self.since), DIFFERED_KEY: self.differed}
        if self.last is not None:
            metadata |= {AT_KEY: dg.MetadataValue.timestamp(self.last.at), PART_KEY: self.last.part}
            metadata |= {POSITION_KEY: self.last.position} if self.last.position else {}
        return metadata


def standstill(
    instance: dg.DagsterInstance, key: dg.AssetCheckKey, now: datetime, red_after: timedelta, *, is_asked: bool = True
) -> Uncompared:
    """Of a table that cannot be compared now; told by the evaluation before this one.

    `is_asked`: its comparison is declared, and so is how long it may be missing.
    """
    for record in instance.event_log_storage.get_asset_check_execution_history(key, limit=1, status=_TOLD):
        before = record.evaluation
        if before is None:
            break
        last = of_metadata({name: value.value for name, value in before.metadata.items()}, record.create_timestamp)
        limit = red_after if is_asked or last is not None else None
        if SINCE_KEY in before.metadata:
            since: Any = before.metadata[SINCE_KEY].value
            return Uncompared(datetime.fromtimestamp(since, timezone.utc), bool(before.metadata[DIFFERED_KEY].value), limit, last)
        return Uncompared(now, not before.passed, limit, last)
    return Uncompared(now, differed=False, red_after=red_after if is_asked else None)


def rows_result(
    instance: dg.DagsterInstance, key: dg.AssetCheckKey, source: BaseSource, table: Table, result: TableResult
) -> dg.AssetCheckResult:
    """A table that could not be compared warns, and is red when that has lasted (`red_after`).

    It only warns where nobody has declared the rhythm and no comparison ever was: that is told, and nothing has become worse.
    """
    declared = source.reconciliation_of(table)
    severity = dg.AssetCheckSeverity.ERROR
    passed, sentence, metadata = check_results.of_reconciliation(result, values=declared.show == "values")
    if result.verdict == INCONCLUSIVE:
        is_asked = source.asked is not None or source.reconciliation.every is not None
        now = datetime.now(timezone.utc)
        stand = standstill(instance, key, now, declared.red_after, is_asked=is_asked)
        sentence, severity, metadata = stand.sentence(result, now), stand.severity(now), {**metadata, **stand.metadata()}
    if declared.on_difference == "warn":
        severity = dg.AssetCheckSeverity.WARN
    return check_result(key, passed, sentence, metadata, severity=severity)


@check_step("rows", RECONCILED_IN_STEPS)
def rows_check(run: CheckRun[Table]) -> Iterator[dg.AssetCheckResult]:
    """Rows of a source without an exact moment, each table or a share of it, and again what was found wrong before."""
    source, tables = run.chain.source, list(run.selected.values())
    results = compare_parts(run.chain, tables, _shares(source, tables), two_step=True)
    for key, table in run.selected.items():
        yield rows_result(run.context.instance, key, source, table, results[names.table_name(table)])


def _shares(source: BaseSource, tables: Sequence[Table]) -> dict[str, Share]:
    # Only where they are declared: a share bounds what is held and looked into, not what is read.
    every = source.rows_every
    assert every is not None
    shares = {}
    for table in tables:
        reconciliation = source.reconciliation_of(table)
        if "shares" in reconciliation.model_fields_set:
            shares[names.table_name(table)] = share_at(reconciliation.shares, every=every.total_seconds(), now=time.time())
    return shares


_SHOWN = 100


@check_step("histories", HISTORY_RECONCILED)
def history_check(run: CheckRun[Table]) -> Iterator[dg.AssetCheckResult]:
    """Histories are proven one after the other; only a difference is red, and only where it is declared to fail."""
    results = _prove(run.chain, list(run.selected.values()))
    for key, table in run.selected.items():
        result = results[names.table_name(table)]
        fails = run.chain.source.reconciliation_of(table).on_difference == "fail" and result.verdict == DIFFERENT
        severity = dg.AssetCheckSeverity.ERROR if fails else dg.AssetCheckSeverity.WARN
        yield check_result(key, *of_history(result), severity=severity)


def _prove(chain: Chain[BaseSource], tables: Sequence[Table]) -> dict[str, HistoryResult]:
    # Of large histories a share of the keys; one that is wrong stays red until it is right.
    parts = history_proof.shares_now(chain, tables)
    by_name = {names.table_name(table): table for table in tables}

    def prove(name: str, part: object) -> HistoryResult:
        assert isinstance(part, tuple)
        return history_proof.prove(chain, by_name[name], part=part)

    results = {name: prove(name, parts.get(name, (0, 1))) for name in by_name}
    return compared_slices.with_earlier(f"{chain.source.name}.histories", parts, results, prove)


def of_history(result: HistoryResult) -> Evidence:
    """The numbers of a proof; keys and versions of what is wrong, no values."""
    metadata = {
        "cdc/share": result.share,
        "cdc/history_versions": result.versions,
        "cdc/history_current": result.current,
        "cdc/keys_differing": result.keys_differing,
        "cdc/seconds": dg.MetadataValue.json(dict(result.seconds)),
        **({} if result.version is None else {"cdc/history_delta_version": result.version}),
        **({} if result.silver_version is None else {"cdc/silver_version": result.silver_version}),
        **({"cdc/columns_not_compared": dg.MetadataValue.json(dict(result.not_compared))} if result.not_compared else {}),
        **({"cdc/error": result.reason, "cdc/decided_by": result.decided_by} if result.verdict == INCONCLUSIVE else {}),
    }
    if result.differences:
        metadata["cdc/differences"] = dg.MetadataValue.table([_record(d) for d in result.differences[:_SHOWN]])
    return result.equal, result.sentence(), metadata


def _record(difference: HistoryDifference) -> dg.TableRecord:
    return dg.TableRecord(
        {
            "key": shorten(difference.key),
            "kind": ", ".join(difference.kinds),
            "damaged": difference.where,
            "versions": shorten(", ".join(difference.versions)),
            "columns": ", ".join(difference.columns),
            "seen_by": ", ".join(difference.proofs),
        }
    )


def quarantine_evaluation(lake: str, source: BaseSource, table: Table) -> dg.AssetCheckEvaluation:
    """What the check says of one table now, for who reports it beside the check's own step: whoever has set a record aside."""
    return evaluation_of(_quarantine_result(lake, source, table))


@check_step("quarantine", QUARANTINE_EMPTY)
def quarantine_check(run: CheckRun[Table]) -> Iterator[dg.AssetCheckResult]:
    """Of each table what quarantine holds of it now."""
    for table in run.selected.values():
        yield _quarantine_result(run.chain.platform.lake, run.chain.source, table)


def _quarantine_result(lake: str, source: BaseSource, table: Table) -> dg.AssetCheckResult:
    records = quarantine_records(lake, source, table)
    return check_result(QUARANTINE_EMPTY.key(source, table), *quarantine_evidence(source, table, records))


def quarantine_evidence(source: BaseSource, table: Table, records: list[QuarantinedRecord]) -> tuple[bool, str, dict[str, Any]]:
    """Whether the quarantine is empty, in words, and the figures.

    A row is in doubt while a record of its key is in quarantine and nothing later says all of the row: silver then shows what
    it was without that record.
    """
    if not records:
        return True, "no record is in quarantine", {"cdc/quarantined": 0}
    oldest = min(records, key=lambda h: h.facts["first_seen"])
    doubtful = [h for h in records if h.facts["superseded_by"] is None]
    rows = {h.facts["row_key"] for h in doubtful if h.facts["row_key"] is not None}
    unknown = sum(h.facts["row_key"] is None for h in records)
    table_path = f"{source.name}/{names.table_name(table)}"
    metadata = {
        "cdc/quarantined": len(records),
        "cdc/oldest": str(oldest.facts["first_seen"]),
        "cdc/rows_in_doubt": len(rows),
        "cdc/records_of_unknown_rows": unknown,
        "cdc/by_class": dg.MetadataValue.json(dict(Counter(h.facts["error_class"] for h in records))),
        "cdc/first_message": oldest.hidden(table).facts["message"],
    }
    since = f"{oldest.facts['first_seen']:%Y-%m-%d %H:%M}"
    text = f"{quantity(len(records), 'record')} in quarantine since {since}, {quantity(len(rows), 'row')} in doubt"
    return False, f"{text}: cdc quarantine list {table_path}", metadata


@check_step("checks_connector", CONNECTOR_RUNNING)
def connector_check(run: CheckRun[None]) -> Iterator[dg.AssetCheckResult]:
    """The source's connectors, as Connect has them now."""
    yield _connector(run.chain)


@check_step("checks_bronze", RECORD_PARITY)
def parity_check(run: CheckRun[Table]) -> Iterator[dg.AssetCheckResult]:
    """The records of the tables in every link up to bronze, counted on from the last count that was right."""
    previous = {
        names.table_name(table): tallies
        for key, table in run.selected.items()
        if (tallies := previous_tallies(run.context.instance, key)) is not None
    }
    results = measure_transport(run.chain, list(run.selected.values()), previous=previous)
    for key, table in run.selected.items():
        yield check_result(key, *check_results.of_transport(results[names.table_name(table)]))


@check_step("checks_silver", RECONCILED, SCHEMA)
def silver_check(run: CheckRun[Table]) -> Iterator[dg.AssetCheckResult]:
    """The tables' rows by one snapshot of the source, and their schemas by the ledger in each table."""
    yield from _compare_rows(run)
    with_schema = run.subjects_of(SCHEMA)
    refusals = refusals_now(run.chain, with_schema)
    for table in with_schema:
        yield schema_result(run.chain.platform.lake, run.chain.source, table, refusals.get(table.id, ""))


@check_step("checks_backup", MANIFEST_PARITY)
def manifest_check(run: CheckRun[Table]) -> Iterator[dg.AssetCheckResult]:
    """The backup of each table, object by object."""
    # A store is waited for more than worked with.
    with ThreadPoolExecutor(thread_name_prefix="volumetry") as pool:
        yield from pool.map(lambda table: _backup(run.chain, table), run.selected.values())


def _connector(chain: Chain[BaseSource]) -> dg.AssetCheckResult:
    # The source's capture; its other connectors, where they are and do not run, warn: bronze may go on without them.
    name = names.connector_name(chain.source)
    try:
        core = chain.platform.core_connect(chain.source.cluster)
        way = {"make": f"its source is managed_by: gitops: {COMMIT}"} if chain.source.managed_by == "gitops" else {}
        running, sentence, metadata = check_results.of_connector(name, core.status(name), core.url, **way)
    except CdcAssetsError as error:
        running, sentence, metadata = check_results.of_error(error)
    beside = _not_running(chain.platform, [other for other in connector_owners([chain.source]) if other != name])
    beside += _not_as_declared(chain) if chain.source.managed_by == "gitops" else []
    if beside:
        sentence, metadata = "; ".join([sentence, *beside]), {**metadata, "cdc/beside": "\n".join(beside)}
    severity = dg.AssetCheckSeverity.WARN if running else dg.AssetCheckSeverity.ERROR
    return check_result(CONNECTOR_RUNNING.key(chain.source), running and not beside, sentence, metadata, severity=severity)


def _not_as_declared(chain: Chain[BaseSource]) -> list[str]:
    """What git has deployed, and the registry declares otherwise; what is ours is brought there by the assets."""
    try:
        differences = [
            difference_of(chain.platform.connect(d.cluster), chain.source, d.config) for d in declared_connectors([chain.source])
        ]
    except CdcAssetsError as error:
        return [str(error)]
    sentences = []
    for difference in differences:
        keys = ", ".join(change.key for change in difference.changes)
        if difference.exists and keys:
            sentences.append(f"{difference.name} is not as declared ({keys}): cdc diff {chain.source.name} shows it; {COMMIT}")
    return sentences


def _not_running(platform: Platform, connectors: Sequence[str]) -> list[str]:
    sentences = []
    try:
        connect = platform.lake_connect()
        for name in connectors:
            # One that is called otherwise there (a KafkaMirrorMaker2's) is not known here.
            if (status := connect.status(name)) is not None and not status.running:
                sentences.append(f"{name}: {check_results.of_connector(name, status)[1]}")
    except MissingAddressError:
        # A platform whose mirror is no connector of ours may have no such cluster.
        return []
    except CdcAssetsError as error:
        return [*sentences, str(error)]
    return sentences


def _compare_rows(run: CheckRun[Table]) -> Iterator[dg.AssetCheckResult]:
    tables, source = run.subjects_of(RECONCILED), run.chain.source.asked
    if source is None or not tables:
        return
    chain = Chain(run.chain.platform, source)
    results = compare_parts(chain, tables, compared_slices.slices_now(chain, tables))
    for table in tables:
        result = results[names.table_name(table)]
        yield rows_result(run.context.instance, RECONCILED.key(source, table), source, table, result)


def _backup(chain: Chain[BaseSource], table: Table) -> dg.AssetCheckResult:
    from cdc_assets.backup.platform_log import verify_state
    from cdc_assets.backup.verification import verify_backup

    assert chain.source.backup is not None
    key, kept = MANIFEST_PARITY.key(chain.source, table), settings.home() / "cache" / "manifests"
    try:
        store = chain.platform.store(chain.source.backup.store)
        short, bronze = names.table_name(table), chain.bronze_path
        report = verify_backup(store, source=chain.source.name, table=short, bronze_path=bronze, kept=kept)
        if table == chain.source.tables[0]:
            # What is kept of the source as a whole is told once.
            report = replace(report, differences=(*report.differences, *verify_state(store, chain.source.name, kept=kept)))
    except CdcAssetsError as error:
        return check_result(key, *check_results.of_error(error))
    return check_result(key, *check_results.of_backup(report))
