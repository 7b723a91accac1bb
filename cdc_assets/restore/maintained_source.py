"""Maintenance of a source together with its backup: what is old goes from bronze, and what was brought back goes again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from cdc_assets.maintenance.maintain_source import maintain_source, plan_source
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.platform import Platform
from cdc_assets.restore.old_records import find_old_records
from cdc_assets.restore.past_records import remove_past

if TYPE_CHECKING:
    from cdc_assets.maintenance.maintained_tables import MaintainedTable
    from spark.maintenance.maintenance_spec import Maintained, MaintenancePlan


def plan_with_backup(
    platform: Platform, source: BaseSource, wanted: Sequence[str] = ()
) -> Iterator[tuple[MaintainedTable, MaintenancePlan]]:
    """What `maintain_with_backup` would do, table after table; nothing is changed."""
    yield from plan_source(platform, source, wanted, find_old_records)


def maintain_with_backup(
    platform: Platform, source: BaseSource, wanted: Sequence[str] = ()
) -> Iterator[tuple[MaintainedTable, Maintained]]:
    """Table after table, as maintain_source, which see for what is raised."""
    yield from maintain_source(platform, source, wanted, find_old_records)
    remove_past(platform.lake, source)
