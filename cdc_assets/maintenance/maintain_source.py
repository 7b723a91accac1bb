"""Maintenance of a source, one table after another: what would be done, and what was done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from cdc_assets import names
from cdc_assets.errors import MissingAddressError, NothingToRunError, SparkRunError, StoreError, TableFailuresError
from cdc_assets.maintenance.maintained_tables import MaintainedTable, tables_in_lake
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.table_lock import table_lock
from spark.maintenance.maintenance_spec import MaintenanceSpec
from spark.maintenance.old_records import OldRecords

if TYPE_CHECKING:
    from spark.maintenance.by_spark import Step
    from spark.maintenance.maintenance_spec import Maintained, MaintenancePlan

FindOld: TypeAlias = Callable[[Platform, BaseSource], tuple[OldRecords, Mapping[str, str]] | None]
_BUSY_SECONDS = 5.0


def plan_source(
    platform: Platform, source: BaseSource, wanted: Sequence[str] = (), find_old: FindOld | None = None
) -> Iterator[tuple[MaintainedTable, MaintenancePlan]]:
    """What maintenance would do now; `wanted` are names of tables, all where none is given. Nothing is changed.

    With `find_old` the plan has the records of the change log that would go; to prove them reads their backup.

    Raises:
        NothingToRunError: there is no table of such a name.
    """
    from spark.maintenance.maintain import plan

    for table in _chosen(platform.lake, source, wanted):
        yield table, plan(_with_old_records(platform, source, table, find_old)[0])


def maintain_source(
    platform: Platform, source: BaseSource, wanted: Sequence[str] = (), find_old: FindOld | None = None
) -> Iterator[tuple[MaintainedTable, Maintained]]:
    """Do it, table after table. `find_old` tells which records of the change log may go, and of which tables none may.

    Raises:
        TableBusyError: somebody else maintains the source.
        NothingToRunError: there is no table of such a name.
        TableFailuresError: at the end, naming the tables that failed.
    """
    from spark.maintenance.maintain import maintain

    failures: dict[str, str] = {}

    def by_spark(step: Step, path: str) -> str:
        try:
            return platform.spark().run(step, path)
        except (SparkRunError, MissingAddressError) as error:
            return str(error)[:300]

    with table_lock("maintenance", source.name, "all", deadline=_BUSY_SECONDS):
        for table in _chosen(platform.lake, source, wanted):
            try:
                spec, left = _with_old_records(platform, source, table, find_old)
                done = maintain(spec, by_spark)
            except Exception as error:  # noqa: BLE001 - one table's failure is its own, and told when the others are done
                failures[table.name] = f"{type(error).__name__}: {str(error)[:500]}"
                continue
            yield table, replace(done, given_up={**done.given_up, **left})
    if failures:
        raise TableFailuresError("maintenance", failures)


def _with_old_records(
    platform: Platform, source: BaseSource, table: MaintainedTable, find_old: FindOld | None
) -> tuple[MaintenanceSpec, dict[str, str]]:
    """The change log's spec with the records that may go, and of which tables none may, and why."""
    if find_old is None or table.spec.path != names.bronze_path(platform.lake, source):
        return table.spec, {}
    try:
        found = find_old(platform, source)
    except StoreError as error:
        return table.spec, {"old records": str(error)}
    if found is None:
        return table.spec, {}
    old, left = found
    return replace(table.spec, old_records=old), {f"old records of {name}": reason for name, reason in left.items()}


def _chosen(lake: str, source: BaseSource, wanted: Sequence[str]) -> list[MaintainedTable]:
    found = tables_in_lake(lake, source)
    if unknown := sorted(set(wanted) - {table.name for table in found}):
        there = ", ".join(table.name for table in found) or "none yet"
        raise NothingToRunError(f"{source.name} has no table {', '.join(unknown)} in {lake}; there are: {there}")
    return [table for table in found if not wanted or table.name in wanted]
