"""Sources without a database of ours (topics that Qlik Replicate or others fill) compared in two steps with their own topic.

The source's side is the topic, read again from its own records and folded in plain Python by another rule than silver's
(resources.topic_rows); the lake's side is silver, brought to what the topic held before. So what is shown is that mirror, bronze,
fold and merge have lost and changed nothing of the topic; what the topic's writer left out nobody can tell from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cdc_assets import names
from cdc_assets.errors import CdcAssetsError
from cdc_assets.reconcile import two_step
from cdc_assets.reconcile.method import WHOLE_TABLES, ComparisonScope
from cdc_assets.reconcile.result import TableResult, not_compared
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.topic_source import TopicSource, TopicTable
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.topic_rows.fold import TopicRows
from cdc_assets.resources.topic_rows.messages import READERS
from cdc_assets.tables.source_catalogue import catalogue_table
from cdc_assets.volumetry.log_position import LogPosition, carry_to_lake
from cdc_assets.volumetry.named_place import offsets_text


def compare(
    platform: Platform, source: TopicSource, tables: Sequence[Table], scope: ComparisonScope = WHOLE_TABLES
) -> dict[str, TableResult]:
    """By short table name; what stands in the way is a result as well."""
    asked = [t for t in tables if isinstance(t, TopicTable)]
    refused = {names.table_name(t): why for t in asked if (why := _unread(t))}
    kept = [t for t in asked if names.table_name(t) not in refused]
    found: dict[str, TableResult] = {}
    try:
        found = _compare(platform, source, kept, scope) if kept else {}
    except CdcAssetsError as error:
        refused |= {names.table_name(t): str(error) for t in kept}
    unread = {n: not_compared(source, t, refused[n], method="two-step") for t in asked if (n := names.table_name(t)) in refused}
    return found | unread


def _compare(
    platform: Platform, source: TopicSource, kept: Sequence[TopicTable], scope: ComparisonScope
) -> dict[str, TableResult]:
    cluster = platform.core_kafka(source.cluster) if names.is_mirrored(source) else platform.lake_kafka()
    registry = source.schema_registry
    rows = TopicRows(cluster, {t.id: (names.topic(source, t), t) for t in kept}, registry.address if registry else None)

    def carry() -> LogPosition:
        position = carry_to_lake(platform, source, deadline=scope.timeout)
        return replace(position, lsn=offsets_text(position.offsets))

    catalogue = {t.id: catalogue_table(t) for t in kept}
    asked = two_step.TwoStepSource(rows, carry, catalogue, scope.method.view)
    return two_step.compare(platform, source, kept, asked, slices=scope.shares)


def _unread(table: TopicTable) -> str:
    if table.envelope not in READERS:
        return f"records in {table.envelope} are not read a second time; those that are: {', '.join(READERS)}"
    if table.partial:
        return f"{', '.join(table.partial)}: parts of rows are not put together a second time"
    if not table.keys:
        return f"{table.name} has no key: the two-step method reads keys again"
    return ""
