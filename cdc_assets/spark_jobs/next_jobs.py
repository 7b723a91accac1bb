"""The spec of the job that an asset would run now, for those who run Spark jobs themselves: the same as the asset's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cdc_assets import names
from cdc_assets.bronze.append import bronze_spec, look, plan_batches
from cdc_assets.errors import NothingToRunError, TopicGapError
from cdc_assets.ledger.count import ledger_spec
from cdc_assets.quantity import quantity
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.delta_log import bronze_committed
from cdc_assets.resources.platform import Platform
from cdc_assets.tables.current_spec import current_spec
from cdc_assets.tables.fold_specs import history_spec
from cdc_assets.tables.log_ends import with_log_end
from spark.specs import BronzeSpec, SilverSpec

if TYPE_CHECKING:
    from spark.ledger.spec import LedgerSpec
    from spark.stream.stream_spec import StreamSpec

JOBS = ("bronze", "silver", "history", "ledger", "stream")


def next_bronze(platform: Platform, source: BaseSource, tables: Sequence[Table]) -> tuple[BronzeSpec, int]:
    """The first job's spec, and how many jobs it takes to read all that the topics hold now.

    Raises:
        TopicGapError: a topic is missing, or contradicts bronze.
        NothingToRunError: bronze holds all of it.
    """
    found = look(platform, source, tables)
    if troubles := {**found.missing, **found.gaps}:
        raise TopicGapError("; ".join(troubles.values()))
    planned = plan_batches(source, found)
    if not planned:
        raise NothingToRunError(f"bronze of {source.name} holds all that is in its {quantity(len(tables), 'topic')}")
    return bronze_spec(platform, source, found, planned[0], "spec"), len(planned)


def next_silver(platform: Platform, source: BaseSource, table: Table) -> SilverSpec:
    """Up to what bronze has committed now.

    Raises:
        DatabaseError: the source has no such table, or cannot be asked.
        NothingToRunError: bronze holds nothing.
    """
    committed = bronze_committed(names.bronze_path(platform.lake, source))
    if committed is None:
        raise NothingToRunError(f"bronze of {source.name} holds nothing yet: cdc spec bronze {source.name}")
    spec = replace(current_spec(platform, source, table), folded_limit=committed.version)
    return with_log_end(source, {table.id: spec}, platform.lake)[table.id]


def next_history(platform: Platform, source: BaseSource, table: Table) -> SilverSpec:
    """The same for the table of all versions.

    Raises:
        NothingToRunError: the table has none.
    """
    if table.history != "scd2":
        raise NothingToRunError(f"{source.name}/{names.table_name(table)} keeps no history: declare history: scd2")
    return history_spec(platform.lake, source, table, next_silver(platform, source, table))


def next_stream(platform: Platform, source: BaseSource, tables: Sequence[Table]) -> StreamSpec:
    """The topics from where bronze stands, and the tables with the columns that the source has now.

    Raises:
        TopicGapError: a topic is missing, or contradicts bronze.
        DatabaseError: the source has not all of the tables, or cannot be asked.
    """
    from spark.stream.stream_spec import StreamSpec

    found = look(platform, source, tables)
    if troubles := {**found.missing, **found.gaps}:
        raise TopicGapError("; ".join(troubles.values()))
    starts = {topic: {p: (start, start) for p, (start, _) in each.ranges.items()} for topic, each in found.slices.items()}
    silver = {table.id: current_spec(platform, source, table) for table in tables}
    history = [history_spec(platform.lake, source, table, silver[table.id]) for table in tables if table.history == "scd2"]
    return StreamSpec(
        bronze_spec(platform, source, found, starts, "stream"),
        names.stream_checkpoint(platform.lake, source),
        tuple(silver.values()),
        tuple(history),
        source.batching.max_records,
    )


def next_ledger(platform: Platform, source: BaseSource, tables: Sequence[Table]) -> LedgerSpec:
    """What silver has folded of the tables and the ledger has not counted.

    Raises:
        NothingToRunError: silver has folded nothing.
    """
    spec = ledger_spec(platform, source, tables)
    if not spec.tables:
        raise NothingToRunError(f"silver of {source.name} has folded nothing yet: cdc spec silver {source.name}")
    return spec
