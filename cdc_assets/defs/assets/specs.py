"""What Dagster knows of each asset before it has run: key, group, kinds, owners, metadata."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import dagster as dg

from cdc_assets import names, settings
from cdc_assets.defs.keys import asset_key
from cdc_assets.kinds import experimental_warning
from cdc_assets.kinds.stores import STORES
from cdc_assets.quantity import quantity
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource, CapturedSource
from spark.delta.bronze_columns import COLUMNS

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
        kinds=KINDS[layer] if layer != "backup" else {_store_kind(source)},
        owners=table.owners or source.owners,
        tags={"layer": layer, "source": source.name, "table": names.table_name(table)},
        skippable=True,
        metadata=_metadata(layer, source, table),
    )


def _upstream_keys(layer: str, source: BaseSource, table: Table) -> list[tuple[str, ...]]:
    if layer == "topic":
        return [names.asset_key("connector", source)] if source.captured else []
    copied = "mirror" if names.is_mirrored(source) else "topic"
    before = {"mirror": "topic", "bronze": copied, "silver": "bronze", "backup": "bronze", "ledger": "silver"}[layer]
    return [names.asset_key(before, source, table)]


def _store_kind(source: BaseSource) -> str:
    return STORES[source.backup.store.kind if source.backup else "local"].icon


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
            "dagster/column_schema": dg.TableSchema([dg.TableColumn(name, type_, said or None) for name, type_, said in COLUMNS]),
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
    """For a shell: a name in quotes ends no quotes of its own."""
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
