"""Assets as Dagster knows them: their keys, what is known before they have run, and the events that tell of a change.

A materialization is told where rows changed, an observation where they did not (ADR 125): `AutomationCondition.eager()` and
checks count materializations, and one that changed nothing would build what is behind again. Both carry the data version of the
last change of rows.

Dagster calls an asset unsynced whose input has another data version than when the asset was materialized last. A log grows, and
most of what it grows by may change no row behind it: so links that are logs have one data version for good.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import dagster as dg
from dagster._core.definitions.data_version import (
    CODE_VERSION_TAG,
    DATA_VERSION_IS_USER_PROVIDED_TAG,
    DATA_VERSION_TAG,
    NULL_EVENT_POINTER,
    extract_data_version_from_entry,
    get_input_data_version_tag,
    get_input_event_pointer_tag,
)

from cdc_assets.registry import names, settings
from cdc_assets.registry.backup_store import STORES
from cdc_assets.registry.kinds import experimental_warning
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity
from spark.specs import BRONZE_COLUMNS
from spark.table.log_reader import ChangeCommit, last_row_change


def asset_key(layer: str, source: BaseSource, table: Table | None = None) -> dg.AssetKey:
    """One link of a table's chain, or the source's connector."""
    return dg.AssetKey(names.asset_key(layer, source, table))


# A node of the graph shows the last part of its key only: the kinds tell bronze/…/city from silver/…/city.
KINDS: Mapping[str, set[str]] = {
    "connector": {"debezium", "kafkaconnect"},
    "topic": {"kafka"},
    "mirror": {"kafka", "mirrormaker"},
    "bronze": {"bronze", "delta", "spark"},
    "silver": {"delta", "silver", "spark"},
    "ledger": {"delta", "ledger", "spark"},
}
_DESCRIPTIONS: Mapping[str, str] = {
    "topic": "Change events of {table} on the core Kafka.",
    "mirror": "The same events on the lake's Kafka, copied by MirrorMaker 2, exactly once.",
    "bronze": "Every change event of {table}, raw, each once: a slice of the source's change log.",
    "silver": "{table} as it is in the source, at a log position.",
    "backup": "Bronze batches of {table} as gzip JSON lines, with a manifest each.",
    "ledger": "Every event of {table} by event-time window and op, in every link, with its fate.",
}
_OF_TOPICS: Mapping[str, str] = {
    **_DESCRIPTIONS,
    "topic": "Records of {table}, as others write them.",
    "mirror": "The same records on the lake's Kafka, copied by MirrorMaker 2, exactly once.",
    "bronze": "Every record of {table}, raw, each once: a slice of the source's log.",
    "silver": "{table} as its records say.",
}


def connector_spec(source: CapturedSource) -> dg.AssetSpec:
    """The asset of the source's connector: `connector/<source>`."""
    return dg.AssetSpec(
        asset_key("connector", source),
        description=source.description or f"Captures {quantity(len(source.tables), 'table')} of {source.name}.",
        group_name=source.name,
        kinds={*KINDS["connector"], source.database.kind},
        owners=source.owners,
        tags={"layer": "connector", "source": source.name},
        metadata={
            "cdc/connector": names.connector_name(source),
            **names.capture_names(source),
            **_experimental(source),
        },
    )


def table_spec(layer: str, source: BaseSource, table: Table) -> dg.AssetSpec:
    """One link of one table's chain, downstream of the link before it."""
    upstream = _upstream_keys(layer, source, table)
    description = (_DESCRIPTIONS if source.captured else _OF_TOPICS)[layer].format(table=table.name)
    if layer == "silver" and table.description:
        description = f"{table.description} {description}"
    return dg.AssetSpec(
        asset_key(layer, source, table),
        deps=[dg.AssetKey(key) for key in upstream],
        description=description,
        group_name=source.name,
        kinds=KINDS[layer] if layer != "backup" else {STORES[source.backup.store.kind if source.backup else "local"].icon},
        owners=table.owners or source.owners,
        tags={"layer": layer, "source": source.name, "table": names.table_name(table)},
        skippable=True,
        metadata=_metadata(layer, source, table),
    )


def source_asset_spec(layer: str, source: BaseSource, behind: str, description: str) -> dg.AssetSpec:
    """An asset about all tables of the source: its cuts, its drill, its maintenance. It is behind a layer of each table."""
    return dg.AssetSpec(
        asset_key(layer, source),
        deps=[asset_key(behind, source, table) for table in source.tables],
        description=description,
        group_name=source.name,
        kinds={"delta"},
        owners=source.owners,
        tags={"layer": layer, "source": source.name},
    )


def _upstream_keys(layer: str, source: BaseSource, table: Table) -> list[tuple[str, ...]]:
    if layer == "topic":
        return [names.asset_key("connector", source)] if source.captured else []
    copied = "mirror" if names.is_mirrored(source) else "topic"
    before = {"mirror": "topic", "bronze": copied, "silver": "bronze", "backup": "bronze", "ledger": "silver"}[layer]
    return [names.asset_key(before, source, table)]


def _experimental(source: BaseSource) -> dict[str, str]:
    warning = experimental_warning(source)
    return {"cdc/experimental": warning} if warning else {}


def _metadata(layer: str, source: BaseSource, table: Table) -> dict[str, Any]:
    lake = settings.lake()
    if layer == "topic":
        return {"dagster/storage_kind": "kafka", "cdc/topic": names.topic(source, table)}
    if layer == "mirror":
        return {"dagster/storage_kind": "kafka", "cdc/topic": names.lake_topic(source, table)}
    if layer == "bronze":
        return {
            "dagster/table_name": names.sql_text("bronze", source, table),
            "dagster/uri": names.bronze_path(lake, source),
            "dagster/storage_kind": "delta",
            "dagster/column_schema": dg.TableSchema(
                [dg.TableColumn(name, type_, description or None) for name, type_, description in BRONZE_COLUMNS]
            ),
            "cdc/slice": f"table = '{names.table_name(table)}'",
        }
    if layer == "silver":
        return {
            "dagster/table_name": names.sql_text("silver", source, table),
            "dagster/uri": names.silver_path(lake, source, table),
            "dagster/storage_kind": "delta",
            "cdc/name_in_spark": ".".join(names.catalog_name(names.sql_name("silver", source, table))),
            "cdc/read": _question(names.sql_text("silver", source, table)),
            "cdc/events": f"cdc peek {names.topic(source, table)} -f",
            **_experimental(source),
            **_links(source, table),
        }
    if layer == "ledger":
        return {
            "dagster/uri": names.ledger_path(lake, source),
            "dagster/storage_kind": "delta",
            "cdc/slice": f"table = '{names.table_name(table)}'",
        }
    assert source.backup is not None
    store = source.backup.store
    scheme = STORES[store.kind].scheme
    return {
        "dagster/uri": f"{scheme}://{store.bucket}/{store.prefix}/{source.name}/{names.table_name(table)}/",
        "dagster/storage_kind": store.kind,
    }


def _question(table: str) -> str:
    # For a shell: a name in quotes ends no quotes of its own.
    statement = f"FROM {table}"
    return f"cdc sql {shlex.quote(statement)}" if '"' in table else f'cdc sql "{statement}"'


def _links(source: BaseSource, table: Table) -> dict[str, dg.MetadataValue]:
    """From a table's rows to the pages of what they came through, and of their counts by window."""
    linked = {
        "cdc/page_of_topic": asset_key("topic", source, table),
        "cdc/page_of_bronze": asset_key("bronze", source, table),
        "cdc/page_of_ledger": asset_key("ledger", source, table),
    }
    if source.captured:
        linked["cdc/page_of_connector"] = asset_key("connector", source)
    return {name: dg.MetadataValue.asset(key) for name, key in linked.items()}


AssetEvent: TypeAlias = dg.AssetMaterialization | dg.AssetObservation
Event: TypeAlias = AssetEvent | dg.AssetCheckEvaluation
VersionOf: TypeAlias = Callable[[str, Table, Mapping[str, Any], str | None], str | None]
"""Of a lake's table, what its step tells and the version that was told last: the data version. None: it is not known."""
LOG_VERSION = "log"
"""The data version of connectors, topics, mirrors and bronze. Who is behind a log is told by the check `fresh`."""
UPDATED = "dagster/last_updated_timestamp"
"""By which Dagster's own freshness checks count an observation
(https://docs.dagster.io/guides/test/data-freshness-testing)."""


def version_in(last: dg.EventLogEntry | None) -> str | None:
    """The data version of an asset's event; None where it was told without."""
    data_version = extract_data_version_from_entry(last) if last is not None else None
    return data_version.value if data_version is not None else None


def silver_version(lake: str, source: BaseSource, table: Table, told: str | None = None) -> str | None:
    """Of a silver table, and its history where it has one: `17@1764491122123`, or two of these.

    `told`: the version that was told last, back to which the logs are read.
    """
    paths = [names.silver_path(lake, source, table)]
    if table.history == "scd2":
        paths.append(names.history_path(lake, source, table))
    commits_before = [ChangeCommit.parse(text) for text in (told or "").split()]
    commits_before += [None] * (len(paths) - len(commits_before))
    changes = [last_row_change(path, before) for path, before in zip(paths, commits_before, strict=False)]
    return " ".join(str(change) for change in changes if change is not None) or None


def change_event(
    key: dg.AssetKey,
    metadata: Mapping[str, Any],
    version: str | None,
    told: str | None,
    *,
    description: str | None = None,
    log: dg.AssetKey | None = None,
) -> AssetEvent:
    """The event of an asset whose rows are of `version` now, and of which `told` was the last version; `log` as materialized.

    `AutomationCondition.eager()` and checks count materializations: one that changed nothing builds what is behind again, and
    the asset's page shows its checks as not evaluated. Both events carry the data version, which is that of the last change of
    rows.
    """
    if version is not None and version == told:
        return observation(key, metadata, version, description=description)
    return materialization(key, metadata, version, description=description, log=log)


def materialization(
    key: dg.AssetKey,
    metadata: Mapping[str, Any],
    version: str | None,
    *,
    description: str | None = None,
    log: dg.AssetKey | None = None,
) -> dg.AssetMaterialization:
    """That the asset's rows are others than before, and of that version.

    `log` is what they were made from. A step's own events say so by themselves; without it Dagster compares times, and what is
    told beside a step is unsynced from the log's next record on.
    """
    made_from: dict[str, str] = {}
    if log is not None:
        made_from = {CODE_VERSION_TAG: "cdc", get_input_event_pointer_tag(log): NULL_EVENT_POINTER}
        made_from[get_input_data_version_tag(log)] = LOG_VERSION
    return dg.AssetMaterialization(key, description=description, metadata=metadata, tags={**_tags(version), **made_from})


def observation(
    key: dg.AssetKey, metadata: Mapping[str, Any], version: str, *, description: str | None = None
) -> dg.AssetObservation:
    """That the asset holds all there is at this moment, and its rows are those of that version still."""
    seen = {UPDATED: dg.MetadataValue.timestamp(time.time())}
    return dg.AssetObservation(key, description=description, metadata={**metadata, **seen}, tags=_tags(version))


def _tags(version: str | None) -> dict[str, str]:
    return {} if version is None else {DATA_VERSION_TAG: version, DATA_VERSION_IS_USER_PROVIDED_TAG: "true"}
