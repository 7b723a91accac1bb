"""One pass of continuous mode over a source: of each table that has news at most one batch in one append, then the small
tables that are behind by one job, each other one by itself.

A table that fails is found and left out, so that the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial

from cdc_assets.capture.preflight.table_models import why_held
from cdc_assets.chain.bronze_append import AppendedTable, AppendPlan, append, look, plan_batches, table_news
from cdc_assets.chain.fold_specs import absent_table, catalogue_or_last_known
from cdc_assets.chain.offset_ranges import width
from cdc_assets.chain.silver_fold import Results, fold_small, fold_table
from cdc_assets.chain.table_reload import close_gap
from cdc_assets.clients.databases.catalogue import CatalogueTable
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain, Say
from cdc_assets.clients.table_concurrency import table_lock
from cdc_assets.registry import names
from cdc_assets.registry.errors import CdcAssetsError, TableBusyError
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.specs import JobResult

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


def append_once(chain: Chain[BaseSource], tables: Sequence[Table], say: Say) -> BronzePass:
    """As the bronze asset, under the same locks; what another one holds is left.
    Raises CdcAssetsError: Kafka or Spark cannot be asked at all."""
    result = BronzePass()
    with ExitStack() as locks:
        mine = []
        for table in sorted(tables, key=lambda table: table.name):
            try:
                locks.enter_context(table_lock("bronze", chain.source.name, names.table_name(table), deadline=0.0))
                mine.append(table)
            except TableBusyError:
                result.busy.add(names.table_name(table))
        if not mine:
            return result
        # Once more, as it is now: whoever had the lock before may have appended.
        plan = look(chain, mine)
        tell_troubles(chain.source, mine, plan, result)
        planned = plan_batches(chain.source, plan)
        result.more = len(planned) > 1
        if planned:
            _append_some(chain, _part(plan, planned[0]), say, result)
    return result


def tell_troubles(source: BaseSource, tables: Iterable[Table], found: AppendPlan, result: BronzePass) -> None:
    """Topics that are missing fail; one that contradicts bronze does too, or is to be read again."""
    short = {names.lake_topic(source, table): names.table_name(table) for table in tables}
    result.failed.update({short[topic]: text for topic, text in found.missing.items()})
    rereads = source.topics.on_gap == "resnapshot" and source.asked is not None
    (result.gaps if rereads else result.failed).update({short[topic]: text for topic, text in found.gaps.items()})


def _part(plan: AppendPlan, topics: Iterable[str]) -> AppendPlan:
    return AppendPlan(plan.before, {topic: plan.slices[topic] for topic in topics})


def _append_some(chain: Chain[BaseSource], plan: AppendPlan, say: Say, result: BronzePass) -> None:
    """All in one append; where that fails, by halves, until the tables are found that make it fail."""
    try:
        seconds, batches = append(chain, plan, OPERATION, say, most=1)
    except CdcAssetsError as error:
        topics = list(plan.slices)
        if len(topics) == 1:
            result.failed[names.table_name(plan.slices[topics[0]].table)] = str(error)
            return
        ask_spark(chain.platform)
        middle = len(topics) // 2
        for half in (topics[:middle], topics[middle:]):
            _append_some(chain, _part(plan, half), say, result)
        return
    result.done += table_news(chain, plan, seconds, batches)


def ask_spark(platform: Platform) -> None:
    """Whether it answers at all: else each table would be tried for nothing. Raises SparkRunError: it does not."""
    platform.spark().run(lambda session, _: session.range(1).count(), None)


def read_again(chain: Chain[BaseSource], table: Table, say: Say) -> list[AppendedTable]:
    """Close the table's gap as the bronze asset does; takes as long as reading the table.
    Raises CdcAssetsError: it could not be read again; TableBusyError: somebody else has it."""
    with table_lock("bronze", chain.source.name, names.table_name(table), deadline=0.0):
        plan = look(chain, [table])
        for topic, text in plan.gaps.items():
            say(text)
            plan.slices[topic] = close_gap(chain, plan, topic, say)
        seconds, batches = append(chain, plan, OPERATION, say)
        return list(table_news(chain, plan, seconds, batches))


def waiting_records(source: BaseSource, found: AppendPlan) -> Mapping[str, int]:
    """Of each table with news the offsets of its next batch. An empty topic is none: its epoch begins with its first record."""
    planned = plan_batches(source, found)
    first = planned[0] if planned else {}
    waiting = {names.table_name(found.slices[topic].table): width(ranges) for topic, ranges in first.items()}
    return {short: offsets for short, offsets in waiting.items() if offsets}


_LEVELS = frozenset({"positions_remembered"})
"""What a result tells as it is then; all else counts."""


@dataclass(frozen=True)
class FoldedTable:
    """One table after a fold, and what it was folded by."""

    table: Table
    found: CatalogueTable
    results: Results

    @property
    def events(self) -> int:
        """That were folded into silver."""
        return self.results[0].rows_read

    def __add__(self, later: FoldedTable) -> FoldedTable:
        """Both as one fold."""
        (first, versions), (second, newer) = self.results, later.results
        history = add_results(versions, newer) if versions and newer else newer or versions
        return replace(later, results=(add_results(first, second), history))


@dataclass
class SilverPass:
    """What became of it."""

    done: list[FoldedTable] = field(default_factory=list)
    long: dict[str, Callable[[], FoldedTable]] = field(default_factory=dict)
    """What is still to be done, by table: each may take long."""
    failed: dict[str, str] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)


def fold_once(chain: Chain[BaseSource], tables: Sequence[Table], bronze_version: int, say: Say) -> SilverPass:
    """As the silver asset, up to a version of bronze. Raises CdcAssetsError: the source's catalogue cannot be read."""
    result = SilverPass()
    catalogue = catalogue_or_last_known(chain, tables, say)
    reasons = why_held(chain, tables, catalogue)
    result.failed |= {names.table_name(table): reasons[table.id] for table in tables if table.id in reasons}
    tables = [table for table in tables if table.id not in reasons]
    small = fold_small(chain, tables, catalogue, bronze_version, say)
    for table in tables:
        short, catalogued = names.table_name(table), catalogue.get(table.id)
        if catalogued is None:
            result.failed[short] = absent_table(chain.source, table)
        elif table.id in small and table.history != "scd2":
            result.done.append(FoldedTable(table, catalogued, (small[table.id], None)))
        elif _is_busy(chain.source, short):
            result.busy.add(short)
        else:
            result.long[short] = partial(_fold, chain, table, catalogued, bronze_version, small.get(table.id))
    return result


def _fold(
    chain: Chain[BaseSource], table: Table, catalogued: CatalogueTable, version: int, done: JobResult | None
) -> FoldedTable:
    return FoldedTable(table, catalogued, fold_table(chain, table, catalogued, version, done))


def _is_busy(source: BaseSource, short: str) -> bool:
    try:
        with table_lock("silver", source.name, short, deadline=0.0):
            return False
    except TableBusyError:
        return True


def add_results(first: JobResult, second: JobResult) -> JobResult:
    """Two folds of a table as one."""
    ops = {op: first.by_op.get(op, 0) + second.by_op.get(op, 0) for op in {*first.by_op, *second.by_op}}
    detail = dict(first.detail)
    for name, value in second.detail.items():
        before = detail.get(name)
        counts = name not in _LEVELS and isinstance(value, int) and isinstance(before, int)
        detail[name] = before + value if counts else value
    return replace(
        second,
        version=first.version if second.version is None else second.version,
        rows_read=first.rows_read + second.rows_read,
        rows_inserted=first.rows_inserted + second.rows_inserted,
        rows_updated=first.rows_updated + second.rows_updated,
        rows_deleted=first.rows_deleted + second.rows_deleted,
        seconds=round(first.seconds + second.seconds, 3),
        by_op=ops,
        detail=detail,
    )
