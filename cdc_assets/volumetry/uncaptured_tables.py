"""Tables that have rows at the source, and no record in their topic: whatever the reason, nothing of them is captured.

A table that the connector does not list, or whose name Debezium or Kafka cannot carry, has no lag and no failure. So the
source is asked for its rows first, and the topic is looked at again once everything committed by then has come.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdc_assets import names
from cdc_assets.quantity import quantity
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cdc_assets.resources.databases.catalogue import SourceDatabase
    from cdc_assets.resources.kafka import TopicState

    States = Mapping[str, TopicState]


@dataclass(frozen=True)
class Unheard:
    """A table, and how many rows it had at the source when no record of it had come."""

    table: Table
    rows: int

    def message(self, source: BaseSource) -> str:
        """What is wrong, and the command that reads the table."""
        return (
            f"{quantity(self.rows, 'row')} at the source and no record in topic {names.topic(source, self.table)}: "
            f"./cdc snapshot {source.name} {self.table.name} reads them"
        )


def rows_without_records(source: BaseSource, database: SourceDatabase, states: States) -> tuple[Unheard, ...]:
    """Tables that have rows now while their topics, as seen before (`states`), have never had a record.

    A connector that takes no snapshot (`capture: {snapshot: no_data}`) sends changes alone: rows without records are right.
    """
    if source.captured is None or source.captured.capture.snapshot == "no_data":
        return ()
    silent = without_records(source, source.tables, states)
    if not silent:
        return ()
    there = database.tables([table.id for table in silent])
    _, counts = database.counts([table.id for table in silent if table.id in there])
    return tuple(Unheard(table, counts[table.id]) for table in silent if counts.get(table.id))


def still_unheard(source: BaseSource, found: Sequence[Unheard], states: States) -> tuple[Unheard, ...]:
    """Those of which still no record has come; `states` are of a time when everything committed before `found` has."""
    silent = {table.name for table in without_records(source, [each.table for each in found], states)}
    return tuple(each for each in found if each.table.name in silent)


def without_records(source: BaseSource, tables: Sequence[Table], states: States) -> list[Table]:
    """Tables whose topic is not there, or ends where every topic begins."""
    ends = {topic: max(state.ends.values(), default=0) for topic, state in states.items()}
    return [table for table in tables if not ends.get(names.topic(source, table))]
