"""Rows of any source compared with silver: at an exact cut where its log tells one, in two steps elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from cdc_assets.errors import DatabaseError
from cdc_assets.kinds import kind_of
from cdc_assets.reconcile import standby
from cdc_assets.reconcile.method import WHOLE_TABLES, ComparisonScope
from cdc_assets.reconcile.result import TableResult
from cdc_assets.reconcile.unsent import forget_equal_tables
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.platform import Platform


def compare_rows(
    platform: Platform, source: BaseSource, tables: Sequence[Table], scope: ComparisonScope = WHOLE_TABLES
) -> dict[str, TableResult]:
    """By short table name; what stands in the way is a result as well.

    Raises:
        DatabaseError: there is no such kind of source, or the standby is none.
    """
    if source.asked and (scope.method.two_step or scope.method.standby):
        return standby.compare(platform, source.asked, tables, scope)
    part = kind_of(source).compare
    if part is None:
        raise DatabaseError(f"source {source.name}: nobody can be asked for its rows")
    found: dict[str, TableResult] = part.load()(platform, source, tables, scope)
    if not scope.method.view:
        forget_equal_tables(source, tables, found)
    return found
