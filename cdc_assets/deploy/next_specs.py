"""The spec of the job that an asset would run now, for those who run Spark jobs themselves: the same as the asset's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cdc_assets.chain.bronze_append import bronze_spec, look, plan_batches
from cdc_assets.chain.fold_specs import current_spec, history_spec, with_log_end
from cdc_assets.clients.delta_log import bronze_committed
from cdc_assets.clients.source_chain import Chain
from cdc_assets.proof.event_ledger import ledger_spec
from cdc_assets.registry import names
from cdc_assets.registry.errors import RefusalError, TopicGapError
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity
from spark.specs import BronzeSpec, SilverSpec

if TYPE_CHECKING:
    from spark.proof.ledger_contract import LedgerSpec
    from spark.specs import StreamSpec

JOBS = ("bronze", "silver", "history", "ledger", "stream")


def next_bronze(chain: Chain[BaseSource], tables: Sequence[Table]) -> tuple[BronzeSpec, int]:
    """The spec of the first append, and how many jobs it takes to read all that the topics hold now.
    Raises TopicGapError: a topic is missing, or contradicts bronze; RefusalError: bronze holds all of it."""
    topics = look(chain, tables)
    if troubles := {**topics.missing, **topics.gaps}:
        raise TopicGapError("; ".join(troubles.values()))
    planned = plan_batches(chain.source, topics)
    if not planned:
        raise RefusalError(f"bronze of {chain.source.name} holds all that is in its {quantity(len(tables), 'topic')}")
    return bronze_spec(chain, topics, planned[0], "spec"), len(planned)


def next_silver(chain: Chain[BaseSource], table: Table) -> SilverSpec:
    """The fold of a table up to what bronze has committed now.
    Raises DatabaseError: the source has no such table, or cannot be asked; RefusalError: bronze holds nothing."""
    committed = bronze_committed(chain.bronze_path)
    if committed is None:
        raise RefusalError(f"bronze of {chain.source.name} holds nothing yet: cdc spec bronze {chain.source.name}")
    spec = replace(current_spec(chain, table), folded_limit=committed.version)
    return with_log_end(chain.source, {table.id: spec}, chain.platform.lake)[table.id]


def next_history(chain: Chain[BaseSource], table: Table) -> SilverSpec:
    """The fold of the table's history, up to what bronze has committed now. Raises RefusalError: the table has none."""
    if table.history != "scd2":
        raise RefusalError(f"{chain.source.name}/{names.table_name(table)} keeps no history: declare history: scd2")
    return history_spec(chain.platform.lake, chain.source, table, next_silver(chain, table))


def next_stream(chain: Chain[BaseSource], tables: Sequence[Table]) -> StreamSpec:
    """The topics from where bronze stands, and the tables with the columns that the source has now.
    Raises TopicGapError: a topic is missing, or contradicts bronze; DatabaseError: the source has not all of the tables, or
    cannot be asked."""
    from spark.specs import StreamSpec

    topics = look(chain, tables)
    if troubles := {**topics.missing, **topics.gaps}:
        raise TopicGapError("; ".join(troubles.values()))
    starts = {topic: {p: (start, start) for p, (start, _) in s.ranges.items()} for topic, s in topics.slices.items()}
    silver = {table.id: current_spec(chain, table) for table in tables}
    history = [
        history_spec(chain.platform.lake, chain.source, table, silver[table.id]) for table in tables if table.history == "scd2"
    ]
    return StreamSpec(
        bronze_spec(chain, topics, starts, "stream"),
        names.stream_checkpoint(chain.platform.lake, chain.source),
        tuple(silver.values()),
        tuple(history),
        chain.source.batching.max_records,
    )


def next_ledger(chain: Chain[BaseSource], tables: Sequence[Table]) -> LedgerSpec:
    """What silver has folded of the tables and the ledger has not counted. Raises RefusalError: silver has folded nothing."""
    spec = ledger_spec(chain, tables)
    if not spec.tables:
        raise RefusalError(f"silver of {chain.source.name} has folded nothing yet: cdc spec silver {chain.source.name}")
    return spec
