"""Rows of any source compared with silver: at an exact cut where its log tells one, in two steps elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cdc_assets.errors import DatabaseError
from cdc_assets.kinds import kind_of
from cdc_assets.reconcile import standby
from cdc_assets.reconcile.result import TableResult
from cdc_assets.reconcile.slices import Slices
from cdc_assets.registry.models import BaseSource, Table
from cdc_assets.resources.platform import Platform


@dataclass(frozen=True)
class ComparisonMethod:
    """How a source with an exact cut is compared instead: in two steps, and of which standby (`host:port`)."""

    two_step: bool = False
    standby: str | None = None


AS_DECLARED = ComparisonMethod()


def compare_rows(
    platform: Platform,
    source: BaseSource,
    tables: Sequence[Table],
    *,
    slices: Slices | None = None,
    timeout: float = 300.0,
    method: ComparisonMethod = AS_DECLARED,
) -> dict[str, TableResult]:
    """By short table name; what stands in the way is a result as well.

    Raises:
        DatabaseError: there is no such kind of source, or the standby is none.
    """
    if source.asked and (method.two_step or method.standby):
        return standby.compare(platform, source.asked, tables, standby=method.standby, slices=slices, timeout=timeout)
    part = kind_of(source).compare
    if part is None:
        raise DatabaseError(f"source {source.name}: nobody can be asked for its rows")
    found: dict[str, TableResult] = part.load()(platform, source, tables, slices=slices, timeout=timeout)
    return found
