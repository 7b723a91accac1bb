"""The volumetry checks of a source, one step per link: one marker and one snapshot of the source serve all its tables.

| asset | check | compares |
|---|---|---|
| connector | connector_running | the connector and every task run |
| bronze | record_parity | committed records: topic = mirror = bronze, by count and digest |
| silver | reconciled | every row: source = silver, at one position of the source's log (docs/explanation/reconciliation.md) |
| silver | schema | the table's schema and its changes; red where no run can fold it (defs/checks/schema.py) |
| backup | manifest_parity | manifests, objects and bronze |

A source of topics has no connector to check, and like one whose database is not asked no rows to compare with.

All are blocking, so that `dagster asset materialize` ends non-zero when one fails; `reconciliation: {on_difference: warn}`
makes that one a warning.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import dagster as dg

from cdc_assets import names, settings
from cdc_assets.bronze.copies import take_out_copies
from cdc_assets.connectors.declared_connectors import declared_connectors
from cdc_assets.connectors.difference import difference_of
from cdc_assets.connectors.inventory import connector_owners
from cdc_assets.connectors.owner import COMMIT
from cdc_assets.defs.checks import evidence
from cdc_assets.defs.checks.previous_tallies import previous_tallies
from cdc_assets.defs.checks.result import check_result
from cdc_assets.defs.checks.rows_result import rows_result
from cdc_assets.defs.checks.schema import DESCRIPTION, NAME, schema_key, schema_result
from cdc_assets.defs.keys import key_of_check
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.errors import CdcAssetsError, MissingAddressError
from cdc_assets.reconcile import open_differences, slices
from cdc_assets.reconcile.method import ComparisonScope
from cdc_assets.reconcile.standby import compare_as_declared
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.platform import Platform
from cdc_assets.tables.fold_refusals import refusals_now
from cdc_assets.volumetry.measure import Previous, measure_transport

_DESCRIPTIONS = {
    "connector_running": "The connector and every one of its tasks run.",
    "record_parity": "Committed records in topic = in mirror = in bronze, counted, with a digest of their order and bytes.",
    "reconciled": "Every row of silver = the source's row, at one position of the source's log, under live writes.",
    NAME: DESCRIPTION,
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
        wanted = context.selected_asset_check_keys
        tables = [table for table in source.tables if check_key(layer, source, table) in wanted]
        if layer == "connector":
            yield _connector(platform, source)
        elif layer == "bronze":
            _without_copies(context, platform, source)
            yield from _bronze(platform, source, tables, _previous(context.instance, source, tables))
        elif layer == "silver":
            yield from _silver(context.instance, platform, source, tables)
            of_schema = [table for table in source.tables if schema_key(source, table) in wanted]
            refusals = refusals_now(platform, source, of_schema)
            for table in of_schema:
                yield schema_result(platform.lake, source, table, refusals.get(table.id, ""))
        else:
            _without_copies(context, platform, source)
            # A store is waited for more than worked with.
            with ThreadPoolExecutor(thread_name_prefix="volumetry") as pool:
                yield from pool.map(lambda table: _backup(platform, source, table), tables)

    return volumetry


def _connector(platform: Platform, source: BaseSource) -> dg.AssetCheckResult:
    """The source's capture; its other connectors, where they are and do not run, warn: bronze may go on without them."""
    name = names.connector_name(source)
    try:
        core = platform.core_connect(source.cluster)
        way = {"make": f"its source is managed_by: gitops: {COMMIT}"} if source.managed_by == "gitops" else {}
        running, told, metadata = evidence.of_connector(name, core.status(name), core.url, **way)
    except CdcAssetsError as error:
        running, told, metadata = evidence.of_error(error)
    beside = _not_running(platform, [other for other in connector_owners([source]) if other != name])
    beside += _not_as_declared(platform, source) if source.managed_by == "gitops" else []
    if beside:
        told, metadata = "; ".join([told, *beside]), {**metadata, "cdc/beside": "\n".join(beside)}
    severity = dg.AssetCheckSeverity.WARN if running else dg.AssetCheckSeverity.ERROR
    return check_result(check_key("connector", source), running and not beside, told, metadata, severity=severity)


def _not_as_declared(platform: Platform, source: BaseSource) -> list[str]:
    """What git has deployed, and the registry declares otherwise; what is ours is brought there by the assets."""
    try:
        found = [difference_of(platform.connect(d.cluster), source, d.config) for d in declared_connectors([source])]
    except CdcAssetsError as error:
        return [str(error)]
    told = []
    for each in found:
        keys = ", ".join(change.key for change in each.changes)
        if each.exists and keys:
            told.append(f"{each.name} is not as declared ({keys}): cdc diff {source.name} shows it; {COMMIT}")
    return told


def _not_running(platform: Platform, connectors: Sequence[str]) -> list[str]:
    found = []
    try:
        connect = platform.lake_connect()
        for name in connectors:
            # One that is called otherwise there (a KafkaMirrorMaker2's) is not known here.
            if (status := connect.status(name)) is not None and not status.running:
                found.append(f"{name}: {evidence.of_connector(name, status)[1]}")
    except MissingAddressError:
        # A platform whose mirror is no connector of ours may have no such cluster.
        return []
    except CdcAssetsError as error:
        return [*found, str(error)]
    return found


def _without_copies(context: dg.AssetCheckExecutionContext, platform: Platform, source: BaseSource) -> None:
    try:
        take_out_copies(platform, source, context.log.warning)
    except CdcAssetsError as error:
        # The check itself tells of the copies then.
        context.log.warning("%s", error)


def _previous(instance: dg.DagsterInstance, source: BaseSource, tables: list[Table]) -> Previous:
    return {
        names.table_name(table): tallies
        for table in tables
        if (tallies := previous_tallies(instance, check_key("bronze", source, table))) is not None
    }


def _bronze(platform: Platform, source: BaseSource, tables: list[Table], previous: Previous) -> list[dg.AssetCheckResult]:
    found = measure_transport(platform, source, tables, previous=previous) if tables else {}
    return [check_result(check_key("bronze", source, t), *evidence.of_transport(found[names.table_name(t)])) for t in tables]


def _silver(
    instance: dg.DagsterInstance, platform: Platform, source: BaseSource, tables: list[Table]
) -> list[dg.AssetCheckResult]:
    asked = source.asked
    if asked is None or not tables:
        return []
    parts = slices.slices_now(platform, asked, tables)
    results = compare_as_declared(platform, asked, tables, ComparisonScope(parts))
    slices.advance_cursors(asked, parts, results)
    by_name = {names.table_name(table): table for table in tables}
    results = open_differences.with_earlier(
        source.name,
        parts,
        results,
        lambda name, part: compare_as_declared(platform, asked, [by_name[name]], ComparisonScope({name: part}))[name],
    )
    return [
        rows_result(instance, check_key("silver", source, table), source, table, results[names.table_name(table)])
        for table in tables
    ]


def _backup(platform: Platform, source: BaseSource, table: Table) -> dg.AssetCheckResult:
    from cdc_assets.backup import verify_backup
    from cdc_assets.backup.platform import verify_state

    assert source.backup is not None
    key, kept = check_key("backup", source, table), settings.home() / "cache" / "manifests"
    try:
        store = platform.store(source.backup.store)
        short, bronze = names.table_name(table), names.bronze_path(platform.lake, source)
        report = verify_backup(store, source=source.name, table=short, bronze_path=bronze, kept=kept)
        if table == source.tables[0]:
            # What is kept of the source as a whole is told once.
            report = replace(report, differences=(*report.differences, *verify_state(store, source.name, kept=kept)))
    except CdcAssetsError as error:
        return check_result(key, *evidence.of_error(error))
    return check_result(key, *evidence.of_backup(report))
