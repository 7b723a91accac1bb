"""The check `reconciled` of sources that are compared in two steps: on a rhythm of its own, since all rows travel each time.

Never at an exact cut: MySQL's takes a global read lock, which a person asks for.
"""

import time
from collections.abc import Iterator, Sequence

import dagster as dg

from cdc_assets import names
from cdc_assets.defs.checks.rows_result import rows_result
from cdc_assets.defs.checks.table_checks import Checks, table_checks
from cdc_assets.defs.keys import key_of_check
from cdc_assets.reconcile import open_differences
from cdc_assets.reconcile.any_source import compare_rows
from cdc_assets.reconcile.method import ComparisonMethod, ComparisonScope
from cdc_assets.reconcile.slices import Share, share_at
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.platform import Platform

NAME = "reconciled"
_DESCRIPTION = "Every row of silver = the source's row, in two steps. Suspects are read again until confirmed or cleared."


def has_rows_check(source: BaseSource) -> bool:
    """Whether rows of a source without an exact moment are compared on a rhythm, declared or once a day."""
    return bool(source.rows_tables)


def rows_keys(source: BaseSource) -> list[dg.AssetCheckKey]:
    """The check's keys, one per table that is compared, on silver's assets."""
    return [key_of_check(NAME, "silver", source, table) for table in source.rows_tables]


def build_rows_checks(source: BaseSource) -> dg.AssetChecksDefinition:
    """One subsettable step for all tables of the source."""
    checks = dict(zip(rows_keys(source), source.rows_tables, strict=True))

    @table_checks("rows", source, checks, _DESCRIPTION, blocking=lambda table: _fails(source, table))
    def rows(context: dg.AssetCheckExecutionContext, platform: Platform, wanted: Checks) -> Iterator[dg.AssetCheckResult]:
        shares, method = _shares(source, list(wanted.values())), ComparisonMethod(two_step=True)
        found = compare_rows(platform, source, list(wanted.values()), ComparisonScope(shares, method=method))
        by_name = {names.table_name(table): table for table in wanted.values()}
        found = open_differences.with_earlier(
            source.name,
            shares,
            found,
            lambda name, part: compare_rows(platform, source, [by_name[name]], ComparisonScope({name: part}, method=method))[
                name
            ],
        )
        for key, table in wanted.items():
            yield rows_result(context.instance, key, source, table, found[names.table_name(table)])

    return rows


def _fails(source: BaseSource, table: Table) -> bool:
    return source.reconciliation_of(table).on_difference == "fail"


def _shares(source: BaseSource, tables: Sequence[Table]) -> dict[str, Share]:
    """Only where they are declared: a share bounds what is held and looked into, not what is read."""
    every = source.rows_every
    assert every is not None
    found = {}
    for table in tables:
        wanted = source.reconciliation_of(table)
        if "shares" in wanted.model_fields_set:
            found[names.table_name(table)] = share_at(wanted.shares, every=every.total_seconds(), now=time.time())
    return found
