"""One declaration of windows: its results follow silver, and are compared with one batch over the same rows."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_assets import names
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.registry.windowed_results import WindowedResults
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.table_lock import table_lock
from spark.specs import JobResult
from spark.windowed.declared_windows import WindowedSpec


@dataclass(frozen=True)
class TableWindows:
    """A declaration with its table."""

    source: BaseSource
    table: Table
    declared: WindowedResults

    @property
    def name(self) -> str:
        """In asset keys and paths."""
        return names.windows_name(self.table, self.declared.name)

    @property
    def key(self) -> tuple[str, ...]:
        """The asset of its results."""
        return names.windows_key(self.source, self.table, self.declared.name)

    def spec(self, lake: str) -> WindowedSpec:
        """What the job is told."""
        return self.declared.spec(
            source=self.source.name,
            table=names.table_name(self.table),
            silver_path=names.silver_path(lake, self.source, self.table),
            path=names.windows_path(lake, self.source, self.table, self.declared.name),
        )


def windows_of(source: BaseSource) -> list[TableWindows]:
    """All that the source declares, by table."""
    return [TableWindows(source, table, declared) for table in source.tables for declared in table.windows]


def refine(platform: Platform, windows: TableWindows) -> JobResult:
    """Bring the results up to silver."""
    from spark.windowed import refine as job

    with table_lock("windows", windows.source.name, windows.name):
        return platform.spark().run(job.run, windows.spec(platform.lake))


@dataclass(frozen=True)
class BatchComparison:
    """Of a table of results: how many there are, how many one batch makes otherwise; None: there is no table yet."""

    silver_version: int | None
    results: int
    differing: int


def compare_with_batch(platform: Platform, windows: TableWindows) -> BatchComparison:
    """The results and those of one batch over the version of silver that they are of."""
    from spark.windowed import refine as job

    with table_lock("windows", windows.source.name, windows.name):
        kept, results, differing = platform.spark().run(job.compare_with_batch, windows.spec(platform.lake))
    return BatchComparison(kept.silver_version if kept else None, results, differing)


def is_behind(lake: str, windows: TableWindows) -> bool:
    """Whether silver has a version that the results are not of; asks no Spark. Where the lake does not tell, they may be."""
    from spark.windowed.kept_state import versions_here

    spec = windows.spec(lake)
    found = versions_here(spec)
    return found is None or found[0] != found[1]
