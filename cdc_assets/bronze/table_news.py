"""What an append has brought to each table of a source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from cdc_assets import names
from cdc_assets.bronze.append import AppendPlan
from cdc_assets.bronze.ranges import Ranges, width
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.delta_log import bronze_committed
from cdc_assets.resources.platform import Platform


@dataclass(frozen=True)
class AppendedTable:
    """One table after an append: what it has read, the records that it added and those of the epoch now."""

    table: Table
    ranges: Ranges
    added: int
    records: int
    epoch: int
    version: int
    batches: int
    seconds: float
    gap: str = ""
    """What its topic lacked, where that made it be read again."""

    @property
    def offsets(self) -> int:
        """Offsets that were to be read, control records among them."""
        return width(self.ranges)

    def __add__(self, later: AppendedTable) -> AppendedTable:
        """Both as one, from the first's starts to the second's ends."""
        return replace(
            later,
            ranges={p: (self.ranges.get(p, bounds)[0], bounds[1]) for p, bounds in later.ranges.items()},
            added=self.added + later.added,
            batches=self.batches + later.batches,
            seconds=self.seconds + later.seconds,
            gap=self.gap or later.gap,
        )


def table_news(
    platform: Platform, source: BaseSource, found: AppendPlan, seconds: float, batches: Mapping[str, int]
) -> Iterator[AppendedTable]:
    """Of each table of the plan, from the log as it is after the append; `seconds` and `batches` are what `append` gives."""
    after = bronze_committed(names.bronze_path(platform.lake, source))
    for topic, each in found.slices.items():
        now, was = after.topics.get(topic) if after else None, found.before.get(topic)
        records = now.records if now else 0
        added = records - (was.records if was and was.epoch == each.epoch else 0)
        version = after.version if after else -1
        gap = found.gaps.get(topic, "")
        yield AppendedTable(each.table, each.ranges, added, records, each.epoch, version, batches[topic], seconds, gap)
