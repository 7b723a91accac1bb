"""One pass of bronze: of each table that has news at most one batch, in one append; a table that fails is found and left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from cdc_assets import names
from cdc_assets.bronze.append import AppendPlan, Say, append, look, plan_batches
from cdc_assets.bronze.ranges import width
from cdc_assets.bronze.reload import close_gap
from cdc_assets.bronze.table_news import AppendedTable, table_news
from cdc_assets.errors import CdcAssetsError, TableBusyError
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.table_lock import table_lock

OPERATION = "stream"


@dataclass
class BronzePass:
    """What became of it, by the tables' short names."""

    done: list[AppendedTable] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)
    """Somebody else has the table: it is looked at again soon."""
    gaps: dict[str, str] = field(default_factory=dict)
    """Tables that are to be read again, which takes long."""
    more: bool = False
    """A table has more than a batch waiting."""


def append_once(platform: Platform, source: BaseSource, tables: Sequence[Table], say: Say) -> BronzePass:
    """As the bronze asset, under the same locks; what another one holds is left.

    Raises:
        CdcAssetsError: Kafka or Spark cannot be asked at all.
    """
    result = BronzePass()
    with ExitStack() as locks:
        mine = []
        for table in sorted(tables, key=lambda table: table.name):
            try:
                locks.enter_context(table_lock("bronze", source.name, names.table_name(table), deadline=0.0))
                mine.append(table)
            except TableBusyError:
                result.busy.add(names.table_name(table))
        if not mine:
            return result
        # Once more, as it is now: whoever had the lock before may have appended.
        found = look(platform, source, mine)
        tell_troubles(source, mine, found, result)
        planned = plan_batches(source, found)
        result.more = len(planned) > 1
        if planned:
            _append_some(platform, source, _part(found, planned[0]), say, result)
    return result


def tell_troubles(source: BaseSource, tables: Iterable[Table], found: AppendPlan, result: BronzePass) -> None:
    """Topics that are missing fail; one that contradicts bronze does too, or is to be read again."""
    short = {names.lake_topic(source, table): names.table_name(table) for table in tables}
    result.failed.update({short[topic]: text for topic, text in found.missing.items()})
    rereads = source.topics.on_gap == "resnapshot" and source.asked is not None
    (result.gaps if rereads else result.failed).update({short[topic]: text for topic, text in found.gaps.items()})


def _part(found: AppendPlan, topics: Iterable[str]) -> AppendPlan:
    return AppendPlan(found.before, {topic: found.slices[topic] for topic in topics})


def _append_some(platform: Platform, source: BaseSource, found: AppendPlan, say: Say, result: BronzePass) -> None:
    """All in one append; where that fails, by halves, until the tables are found that make it fail."""
    try:
        seconds, batches = append(platform, source, found, OPERATION, say, most=1)
    except CdcAssetsError as error:
        topics = list(found.slices)
        if len(topics) == 1:
            result.failed[names.table_name(found.slices[topics[0]].table)] = str(error)
            return
        ask_spark(platform)
        middle = len(topics) // 2
        for half in (topics[:middle], topics[middle:]):
            _append_some(platform, source, _part(found, half), say, result)
        return
    result.done += table_news(platform, source, found, seconds, batches)


def ask_spark(platform: Platform) -> None:
    """Whether it answers at all: else each table would be tried for nothing.

    Raises:
        SparkRunError: it does not.
    """
    platform.spark().run(lambda session, _: session.range(1).count(), None)


def read_again(platform: Platform, source: BaseSource, table: Table, say: Say) -> list[AppendedTable]:
    """Close the table's gap as the bronze asset does; takes as long as reading the table.

    Raises:
        CdcAssetsError: it could not be read again; TableBusyError: somebody else has it.
    """
    with table_lock("bronze", source.name, names.table_name(table), deadline=0.0):
        found = look(platform, source, [table])
        for topic, text in found.gaps.items():
            say(text)
            found.slices[topic] = close_gap(platform, source, found, topic, say)
        seconds, batches = append(platform, source, found, OPERATION, say)
        return list(table_news(platform, source, found, seconds, batches))


def waiting_records(source: BaseSource, found: AppendPlan) -> Mapping[str, int]:
    """Of each table with news the offsets of its next batch. An empty topic is none: its epoch begins with its first record."""
    planned = plan_batches(source, found)
    first = planned[0] if planned else {}
    waiting = {names.table_name(found.slices[topic].table): width(ranges) for topic, ranges in first.items()}
    return {short: offsets for short, offsets in waiting.items() if offsets}
