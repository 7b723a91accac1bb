"""How the counts of a source are checked, a step per link: one marker and one snapshot of the source serve all its tables.

The connector and its tasks, records from the topic to bronze, rows of silver with the table's schema, and the backup's objects.
The rows of these checks stand in `check_specs`.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import dagster as dg

from cdc_assets.capture.connectors.config_difference import difference_of
from cdc_assets.capture.connectors.connector_inventory import COMMIT, connector_owners
from cdc_assets.capture.connectors.declared_connectors import declared_connectors
from cdc_assets.chain.bronze_append import take_out_copies
from cdc_assets.chain.fold_specs import refusals_now
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs import check_results
from cdc_assets.defs.asset_steps import CheckRun, check_step
from cdc_assets.defs.check_results import check_result, previous_tallies
from cdc_assets.defs.check_specs import CONNECTOR_RUNNING, MANIFEST_PARITY, RECONCILED, RECORD_PARITY, SCHEMA
from cdc_assets.defs.row_checks import rows_result
from cdc_assets.defs.schema_and_fresh_checks import schema_result
from cdc_assets.proof import compared_slices
from cdc_assets.proof.compared_slices import Share
from cdc_assets.proof.comparison_at_cut import ComparisonScope
from cdc_assets.proof.comparison_choice import compare_as_declared
from cdc_assets.proof.comparison_result import TableResult
from cdc_assets.proof.volumetry import measure_transport
from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import CdcAssetsError, MissingAddressError
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table


@check_step("checks_connector", CONNECTOR_RUNNING)
def connector_check(run: CheckRun[None]) -> Iterator[dg.AssetCheckResult]:
    """The source's connectors, as Connect has them now."""
    yield _connector(run.chain)


@check_step("checks_bronze", RECORD_PARITY)
def parity_check(run: CheckRun[Table]) -> Iterator[dg.AssetCheckResult]:
    """The records of the tables in every link up to bronze, counted on from the last count that was right."""
    _without_copies(run)
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
    _without_copies(run)
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


def _without_copies(run: CheckRun[Table]) -> None:
    try:
        take_out_copies(run.chain, run.context.log.warning)
    except CdcAssetsError as error:
        # The check itself tells of the copies then.
        run.context.log.warning("%s", error)


def _compare_rows(run: CheckRun[Table]) -> Iterator[dg.AssetCheckResult]:
    tables, source = run.subjects_of(RECONCILED), run.chain.source.asked
    if source is None or not tables:
        return
    chain = Chain(run.chain.platform, source)
    slices = compared_slices.slices_now(chain, tables)
    results = compare_as_declared(chain, tables, ComparisonScope(slices))
    compared_slices.advance_cursors(source, slices, results)
    by_name = {names.table_name(table): table for table in tables}

    def compare(name: str, share: Share) -> TableResult:
        return compare_as_declared(chain, [by_name[name]], ComparisonScope({name: share}))[name]

    results = compared_slices.with_earlier(source.name, slices, results, compare)
    for name, table in by_name.items():
        yield rows_result(run.context.instance, RECONCILED.key(source, table), source, table, results[name])


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
