"""The check `table_model` of silver: Debezium reads the table's rows by the columns that the server has.

Red as long as it does not; silver folds nothing of the table then (cdc_assets.silver.fold_tables). It warns where that cannot be
told yet.
"""

from collections.abc import Iterator
from typing import TypeGuard

import dagster as dg

from cdc_assets.defs.checks.result import check_result
from cdc_assets.defs.checks.table_checks import Checks, table_checks
from cdc_assets.defs.keys import key_of_check
from cdc_assets.preflight.finding import Finding
from cdc_assets.preflight.table_models import CHECK, findings, reads_statements
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource, CapturedSource
from cdc_assets.resources.platform import Platform


def has_models(source: BaseSource) -> TypeGuard[CapturedSource]:
    """Whether its connector reads DDL by its text: MariaDB's and MySQL's."""
    return reads_statements(source) is not None


def model_key(source: BaseSource, table: Table) -> dg.AssetCheckKey:
    """The key of the table's check."""
    return key_of_check(CHECK, "silver", source, table)


def build_model_checks(source: CapturedSource) -> dg.AssetChecksDefinition:
    """One subsettable step for all tables of the source."""
    checks = {model_key(source, table): table for table in source.tables}

    @table_checks("table_model", source, checks, "Debezium reads the table's rows by the columns that the server has.")
    def table_model(_: dg.AssetCheckExecutionContext, platform: Platform, wanted: Checks) -> Iterator[dg.AssetCheckResult]:
        yield from results(source, wanted, findings(platform, source, [table.id for table in wanted.values()]))

    return table_model


def results(source: CapturedSource, wanted: Checks, found: Iterator[Finding]) -> Iterator[dg.AssetCheckResult]:
    """A finding about the server is one of each table; a table that nothing is known of yet passes with these words."""
    told = {finding.subject: finding for finding in found}
    for key, table in wanted.items():
        finding = told.get(str(table.id)) or told.get("server")
        if finding is None:
            yield check_result(key, True, f"source {source.name} has no schema history yet, or no such table", {})
            continue
        mend = f". Mend: {finding.mend}" if finding.mend else ""
        severity = dg.AssetCheckSeverity.WARN if finding.level == "warn" else dg.AssetCheckSeverity.ERROR
        yield check_result(key, finding.level == "ok", finding.message + mend, {}, severity=severity)
