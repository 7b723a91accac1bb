"""What Dagster is told of a table: a materialization where its rows changed, an observation where they did not (ADR 125).

`AutomationCondition.eager()` and checks count materializations: one that changed nothing builds what is behind again, and the
asset's page shows its checks as not evaluated. Both events carry the data version, which is that of the last change of rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import dagster as dg
from dagster._core.definitions.data_version import (
    DATA_VERSION_IS_USER_PROVIDED_TAG,
    DATA_VERSION_TAG,
    extract_data_version_from_entry,
)

from cdc_assets import names
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from spark.delta.row_changes import ChangeCommit, last_row_change

AssetEvent: TypeAlias = dg.AssetMaterialization | dg.AssetObservation
Event: TypeAlias = AssetEvent | dg.AssetCheckEvaluation
VersionOf: TypeAlias = Callable[[str, Table, Mapping[str, Any], str | None], str | None]
"""Of a lake's table, what its step tells and the version that was told last: the data version. None: it is not known."""
UPDATED = "dagster/last_updated_timestamp"
"""By which Dagster's own freshness checks count an observation
(https://docs.dagster.io/guides/test/data-freshness-testing)."""


def version_in(last: dg.EventLogEntry | None) -> str | None:
    """The data version of an asset's event; None where it was told without."""
    found = extract_data_version_from_entry(last) if last is not None else None
    return found.value if found is not None else None


def silver_version(lake: str, source: BaseSource, table: Table, told: str | None = None) -> str | None:
    """Of a silver table, and its history where it has one: `17@1764491122123`, or two of these.

    `told`: the version that was told last, back to which the logs are read.
    """
    paths = [names.silver_path(lake, source, table)]
    if table.history == "scd2":
        paths.append(names.history_path(lake, source, table))
    known = [ChangeCommit.parse(text) for text in (told or "").split()]
    known += [None] * (len(paths) - len(known))
    found = [last_row_change(path, before) for path, before in zip(paths, known, strict=False)]
    return " ".join(str(change) for change in found if change is not None) or None


def change_event(
    key: dg.AssetKey, metadata: Mapping[str, Any], version: str | None, told: str | None, *, description: str | None = None
) -> AssetEvent:
    """The event of an asset whose rows are of `version` now, and of which `told` was the last version."""
    if version is not None and version == told:
        return observation(key, metadata, version, description=description)
    return materialization(key, metadata, version, description=description)


def materialization(
    key: dg.AssetKey, metadata: Mapping[str, Any], version: str | None, *, description: str | None = None
) -> dg.AssetMaterialization:
    """That the asset's rows are others than before, and of that version."""
    return dg.AssetMaterialization(key, description=description, metadata=metadata, tags=_tags(version))


def observation(
    key: dg.AssetKey, metadata: Mapping[str, Any], version: str, *, description: str | None = None
) -> dg.AssetObservation:
    """That the asset holds all there is at this moment, and its rows are those of that version still."""
    seen = {UPDATED: dg.MetadataValue.timestamp(time.time())}
    return dg.AssetObservation(key, description=description, metadata={**metadata, **seen}, tags=_tags(version))


def _tags(version: str | None) -> dict[str, str]:
    return {} if version is None else {DATA_VERSION_TAG: version, DATA_VERSION_IS_USER_PROVIDED_TAG: "true"}
