"""The volumetry checks of a source, in one step: one marker and one snapshot of the source serve all its tables.

| asset | check | compares |
|---|---|---|
| connector | connector_running | the connector and every task run |
| bronze | record_parity | committed records: topic = mirror = bronze, by count and digest |
| silver | reconciled | every row: source = silver, at one position of the source's log (docs/reconciliation.md) |
| silver | schema | the table's schema and its changes (checks/schema.py; it only warns) |
| backup | manifest_parity | manifests, objects and bronze |

A source of topics has no connector to check, and like one whose database is not asked no rows to compare with.

All are blocking, so that `dagster asset materialize` ends non-zero when one fails; `reconciliation: {on_difference: warn}`
makes that one a warning.
"""

from collections.abc import Iterator

import dagster as dg

from cdc_assets import names, settings
from cdc_assets.checks import evidence
from cdc_assets.checks.previous_tallies import previous_tallies
from cdc_assets.checks.result import check_result
from cdc_assets.checks.schema import DESCRIPTION, NAME, schema_key, schema_result
from cdc_assets.errors import CdcAssetsError
from cdc_assets.reconcile.compare import compare
from cdc_assets.reconcile.shares import shares_now
from cdc_assets.registry.models import BaseSource, CapturedSource, Source, Table
from cdc_assets.resources.platform import Platform
from cdc_assets.volumetry.measure import measure_transport

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
    return dg.AssetCheckKey(dg.AssetKey(names.asset_key(layer, source, table)), check_name(layer))


def build_volumetry_checks(source: BaseSource) -> dg.AssetChecksDefinition:
    """One subsettable step for all checks of the source."""
    with_database = isinstance(source, Source)
    keys = [check_key("connector", source)] if isinstance(source, CapturedSource) else []
    layers = (*(("bronze", "silver") if with_database else ("bronze",)), *(("backup",) if source.backup else ()))
    keys += [check_key(layer, source, table) for layer in layers for table in source.tables]
    keys += [schema_key(source, table) for table in source.tables]
    warning = {check_key("silver", source, t) for t in source.tables if _only_warns(source, t)} if with_database else set()
    specs = [
        dg.AssetCheckSpec(key.name, asset=key.asset_key, description=_DESCRIPTIONS[key.name], blocking=key not in warning)
        for key in keys
    ]

    @dg.multi_asset_check(name=f"checks_{source.name}", specs=specs, can_subset=True)
    def volumetry(context: dg.AssetCheckExecutionContext, platform: Platform) -> Iterator[dg.AssetCheckResult]:
        wanted = context.selected_asset_check_keys
        if check_key("connector", source) in wanted:
            yield _connector(platform, source)
        chosen = {layer: [t for t in source.tables if check_key(layer, source, t) in wanted] for layer in layers}
        if chosen["bronze"]:
            yield from _bronze(context, platform, source, chosen["bronze"])
        if isinstance(source, Source) and chosen["silver"]:
            yield from _silver(platform, source, chosen["silver"])
        for table in source.tables:
            if schema_key(source, table) in wanted:
                yield schema_result(platform.lake, source, table)
        for table in chosen.get("backup", []):
            yield _backup(platform, source, table)

    return volumetry


def _connector(platform: Platform, source: BaseSource) -> dg.AssetCheckResult:
    name = names.connector_name(source)
    return check_result(check_key("connector", source), *evidence.of_connector(name, platform.core_connect().status(name)))


def _bronze(
    context: dg.AssetCheckExecutionContext, platform: Platform, source: BaseSource, tables: list[Table]
) -> Iterator[dg.AssetCheckResult]:
    previous = {
        names.table_name(table): tallies
        for table in tables
        if (tallies := previous_tallies(context.instance, check_key("bronze", source, table))) is not None
    }
    measured = measure_transport(platform, source, tables, previous=previous)
    for table in tables:
        yield check_result(check_key("bronze", source, table), *evidence.of_transport(measured[names.table_name(table)]))


def _silver(platform: Platform, source: Source, tables: list[Table]) -> Iterator[dg.AssetCheckResult]:
    results = compare(platform, source, tables, shares=shares_now(platform, source, tables))
    for table in tables:
        severity = dg.AssetCheckSeverity.WARN if _only_warns(source, table) else dg.AssetCheckSeverity.ERROR
        told = evidence.of_reconciliation(results[names.table_name(table)])
        yield check_result(check_key("silver", source, table), *told, severity=severity)


def _only_warns(source: BaseSource, table: Table) -> bool:
    return (table.reconciliation or source.reconciliation).on_difference == "warn"


def _backup(platform: Platform, source: BaseSource, table: Table) -> dg.AssetCheckResult:
    from cdc_assets.backup import verify_backup

    assert source.backup is not None
    key = check_key("backup", source, table)
    try:
        report = verify_backup(
            platform.store(source.backup.store),
            source=source.name,
            table=names.table_name(table),
            bronze_path=names.bronze_path(platform.lake, source),
            kept=settings.home() / "cache" / "manifests",
        )
    except CdcAssetsError as error:
        return check_result(key, *evidence.of_error(error))
    return check_result(key, *evidence.of_backup(report))
