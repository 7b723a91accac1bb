"""The volumetry checks of a source, one step per link: one marker and one snapshot of the source serve all its tables.

| asset | check | compares |
|---|---|---|
| connector | connector_running | the connector and every task run |
| bronze | record_parity | committed records: topic = mirror = bronze, by count and digest |
| silver | reconciled | every row: source = silver, at one position of the source's log (docs/explanation/reconciliation.md) |
| silver | schema | the table's schema and its changes; red where no run can fold it (schema_and_fresh_checks.py) |
| backup | manifest_parity | manifests, objects and bronze |

A source of topics has no connector to check, and like one whose database is not asked no rows to compare with.

All are blocking, so that `dagster asset materialize` ends non-zero when one fails; `reconciliation: {on_difference: warn}`
makes that one a warning.
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
from cdc_assets.defs.asset_specs import key_of_check
from cdc_assets.defs.check_results import check_result, previous_tallies
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.defs.row_checks import rows_result
from cdc_assets.defs.schema_and_fresh_checks import SCHEMA, SCHEMA_DESCRIPTION, schema_key, schema_result
from cdc_assets.proof import compared_slices
from cdc_assets.proof.comparison_at_cut import ComparisonScope
from cdc_assets.proof.comparison_choice import compare_as_declared
from cdc_assets.proof.volumetry import Previous, measure_transport
from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import CdcAssetsError, MissingAddressError
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table

_DESCRIPTIONS = {
    "connector_running": "The connector and every one of its tasks run.",
    "record_parity": "Committed records in topic = in mirror = in bronze, counted, with a digest of their order and bytes.",
    "reconciled": "Every row of silver = the source's row, at one position of the source's log, under live writes.",
    SCHEMA: SCHEMA_DESCRIPTION,
    "manifest_parity": "Every manifest's objects are there with size and sha256, without gap, overlap or stray object.",
}


_NAMES = {"connector": "connector_running", "bronze": "record_parity", "silver": "reconciled", "backup": "manifest_parity"}


def check_name(layer: str) -> str:
    """The volumetry check of a layer."""
    return _NAMES[layer]


def check_key(layer: str, source: BaseSource, table: Table | None = None) -> dg.AssetCheckKey:
    """The key of the volumetry check of one asset."""
    return key_of_check(check_name(layer), layer, source, table)


def build_volumetry_checks(source: BaseSource) -> list[dg.AssetChecksDefinition]:
    """One subsettable step for each link of the chain that has checks.

    A step with checks of several links is in a cycle with them. Dagster then splits it, and names the parts by the order of
    a set: another order in each process, so a step that runs in a process of its own ran the checks of another link.
    """
    return [_build_step(source, layer, keys) for layer, keys in _keys_by_layer(source).items() if keys]


def _keys_by_layer(source: BaseSource) -> dict[str, list[dg.AssetCheckKey]]:
    compared = [check_key("silver", source, table) for table in source.tables] if source.asked else []
    return {
        "connector": [check_key("connector", source)] if source.captured else [],
        "bronze": [check_key("bronze", source, table) for table in source.tables],
        "silver": [*compared, *(schema_key(source, table) for table in source.tables)],
        "backup": [check_key("backup", source, table) for table in source.tables] if source.backup else [],
    }


def _build_step(source: BaseSource, layer: str, keys: list[dg.AssetCheckKey]) -> dg.AssetChecksDefinition:
    warning = {
        check_key("silver", source, table) for table in source.tables if source.reconciliation_of(table).on_difference == "warn"
    }
    specs = [
        dg.AssetCheckSpec(key.name, asset=key.asset_key, description=_DESCRIPTIONS[key.name], blocking=key not in warning)
        for key in keys
    ]

    @dg.multi_asset_check(name=names.op_name(f"checks_{layer}", source), specs=specs, can_subset=True)
    def volumetry(context: dg.AssetCheckExecutionContext, platform: PlatformResource) -> Iterator[dg.AssetCheckResult]:
        keys = context.selected_asset_check_keys
        tables = [table for table in source.tables if check_key(layer, source, table) in keys]
        if layer == "connector":
            yield _connector(Chain(platform, source))
        elif layer == "bronze":
            _without_copies(context, platform, source)
            yield from _bronze(Chain(platform, source), tables, _previous(context.instance, source, tables))
        elif layer == "silver":
            yield from _silver(context.instance, platform, source, tables)
            of_schema = [table for table in source.tables if schema_key(source, table) in keys]
            refusals = refusals_now(Chain(platform, source), of_schema)
            for table in of_schema:
                yield schema_result(platform.lake, source, table, refusals.get(table.id, ""))
        else:
            _without_copies(context, platform, source)
            # A store is waited for more than worked with.
            with ThreadPoolExecutor(thread_name_prefix="volumetry") as pool:
                yield from pool.map(lambda table: _backup(Chain(platform, source), table), tables)

    return volumetry


def _connector(chain: Chain[BaseSource]) -> dg.AssetCheckResult:
    """The source's capture; its other connectors, where they are and do not run, warn: bronze may go on without them."""
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
    return check_result(check_key("connector", chain.source), running and not beside, sentence, metadata, severity=severity)


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


def _without_copies(context: dg.AssetCheckExecutionContext, platform: Platform, source: BaseSource) -> None:
    try:
        take_out_copies(Chain(platform, source), context.log.warning)
    except CdcAssetsError as error:
        # The check itself tells of the copies then.
        context.log.warning("%s", error)


def _previous(instance: dg.DagsterInstance, source: BaseSource, tables: list[Table]) -> Previous:
    return {
        names.table_name(table): tallies
        for table in tables
        if (tallies := previous_tallies(instance, check_key("bronze", source, table))) is not None
    }


def _bronze(chain: Chain[BaseSource], tables: list[Table], previous: Previous) -> list[dg.AssetCheckResult]:
    results = measure_transport(chain, tables, previous=previous) if tables else {}
    return [
        check_result(check_key("bronze", chain.source, t), *check_results.of_transport(results[names.table_name(t)]))
        for t in tables
    ]


def _silver(
    instance: dg.DagsterInstance, platform: Platform, source: BaseSource, tables: list[Table]
) -> list[dg.AssetCheckResult]:
    asked_source = source.asked
    if asked_source is None or not tables:
        return []
    parts = compared_slices.slices_now(Chain(platform, asked_source), tables)
    results = compare_as_declared(Chain(platform, asked_source), tables, ComparisonScope(parts))
    compared_slices.advance_cursors(asked_source, parts, results)
    by_name = {names.table_name(table): table for table in tables}
    results = compared_slices.with_earlier(
        source.name,
        parts,
        results,
        lambda name, part: compare_as_declared(Chain(platform, asked_source), [by_name[name]], ComparisonScope({name: part}))[
            name
        ],
    )
    return [
        rows_result(instance, check_key("silver", source, table), source, table, results[names.table_name(table)])
        for table in tables
    ]


def _backup(chain: Chain[BaseSource], table: Table) -> dg.AssetCheckResult:
    from cdc_assets.backup.platform_log import verify_state
    from cdc_assets.backup.verification import verify_backup

    assert chain.source.backup is not None
    key, kept = check_key("backup", chain.source, table), settings.home() / "cache" / "manifests"
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
