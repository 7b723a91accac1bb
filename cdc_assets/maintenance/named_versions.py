"""Old versions of a source's tables that somebody reads by their number: kept cuts, windows, and whoever proves a history."""

from __future__ import annotations

from collections.abc import Iterator

from cdc_assets import names
from cdc_assets.cuts.cut_manifest import read_cuts
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.delta_log import silver_committed, version_that_folded
from cdc_assets.windowed.refine_windows import windows_of
from spark.maintenance.needs import NamedVersion
from spark.windowed.kept_state import read_kept_results


def find_named_versions(lake: str, source: BaseSource) -> dict[str, tuple[NamedVersion, ...]]:
    """By the tables' places below the lake, each version once."""
    found: dict[str, dict[int, NamedVersion]] = {}
    for path, named in (*_of_cuts(lake, source), *_of_windows(lake, source), *_of_histories(lake, source)):
        found.setdefault(path.removeprefix(f"{lake.rstrip('/')}/"), {}).setdefault(named.version, named)
    return {path: tuple(versions.values()) for path, versions in found.items()}


def _of_cuts(lake: str, source: BaseSource) -> Iterator[tuple[str, NamedVersion]]:
    for cut in read_cuts(lake, source):
        for entry in cut.entries:
            yield entry.path, NamedVersion(entry.version, entry.table_id, f"cut {cut.cut}")


def _of_windows(lake: str, source: BaseSource) -> Iterator[tuple[str, NamedVersion]]:
    """The next results are told from the version that the last ones are of, and these are proven against it."""
    for windows in windows_of(source):
        spec = windows.spec(lake)
        kept = read_kept_results(spec.path)
        if kept is not None:
            yield spec.silver_path, NamedVersion(kept.silver_version, "", f"windows {windows.name} are of it")


def _of_histories(lake: str, source: BaseSource) -> Iterator[tuple[str, NamedVersion]]:
    """A history is proven against silver as it was when it had folded the same."""
    for table in source.tables:
        silver, version = names.silver_path(lake, source, table), _version_of_history(lake, source, table)
        if version is not None:
            yield silver, NamedVersion(version, "", f"the history of {names.table_name(table)} stands there")


def _version_of_history(lake: str, source: BaseSource, table: Table) -> int | None:
    if table.history != "scd2":
        return None
    silver, folded = names.silver_path(lake, source, table), silver_committed(names.history_path(lake, source, table))
    ahead = silver_committed(silver)
    if folded is None or ahead is None or ahead.topics == folded.topics:
        return None
    return version_that_folded(silver, folded)
