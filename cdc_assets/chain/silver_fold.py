"""Folds the tables of a source up to a version of bronze: the small ones in the tasks of one Spark job, the others by a job
each; and shows a table's first rows.

A table that fails is told by name and holds up no other. Values of sensitive columns are left out of what is shown.

Which table is small, and which batch a task can fold, is decided where the table is looked at (spark.silver.small_tables).
What a task leaves is folded by a job of its own, with the same rows and the same commit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TypeAlias

from cdc_assets.capture.preflight.table_models import why_held
from cdc_assets.chain.fold_specs import absent_table, history_spec, silver_spec, with_log_end
from cdc_assets.clients import delta_rows
from cdc_assets.clients.databases.catalogue import CatalogueTable
from cdc_assets.clients.delta_log import open_table
from cdc_assets.clients.delta_rows import open_dataset
from cdc_assets.clients.source_chain import Chain
from cdc_assets.clients.table_concurrency import each_table, layer_of_lake, table_lock
from cdc_assets.registry import names
from cdc_assets.registry.display_text import in_markdown
from cdc_assets.registry.errors import CdcAssetsError, DatabaseError, FailuresError, TableBusyError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.specs import JobResult, SilverSpec

Results: TypeAlias = tuple[JobResult, JobResult | None]
"""Silver's, and its history's where the table has one."""


def fold_tables(
    chain: Chain[BaseSource],
    tables: Sequence[Table],
    catalogue: Mapping[TableId, CatalogueTable],
    bronze_version: int,
    say: Callable[[str], None],
) -> Iterator[tuple[Table, Results]]:
    """Yield `(table, results)` as each is done; `say` is told which tables no task has folded, and why.

    Raises:
        FailuresError: at the end, naming the tables that failed.
    """
    folded = fold_small(chain, tables, catalogue, bronze_version, say)
    rest = []
    for table in tables:
        if table.id in folded and table.history != "scd2":
            yield table, (folded[table.id], None)
        else:
            rest.append(table)

    def fold(table: Table) -> Results:
        if table.id not in catalogue:
            raise DatabaseError(absent_table(chain.source, table))
        return fold_table(chain, table, catalogue[table.id], bronze_version, folded.get(table.id))

    if rest:
        yield from each_table("silver", rest, fold)


def fold_others(
    chain: Chain[BaseSource],
    tables: Sequence[Table],
    catalogue: Mapping[TableId, CatalogueTable],
    bronze_version: int,
    say: Callable[[str], None],
) -> Iterator[tuple[Table, Results]]:
    """`fold_tables` of those that are not held: of these Debezium reads the rows by a model that is not the server's.

    What bronze has of a held table stays where it is.

    Raises:
        FailuresError: at the end, naming the tables that are held or failed.
    """
    reasons = why_held(chain, tables, catalogue)
    failed = {names.table_name(table): reasons[table.id] for table in tables if table.id in reasons}
    try:
        yield from fold_tables(chain, [t for t in tables if t.id not in reasons], catalogue, bronze_version, say)
    except FailuresError as error:
        failed |= error.failures
    if failed:
        raise FailuresError.of_tables("silver", failed)


def fold_small(
    chain: Chain[BaseSource],
    tables: Sequence[Table],
    catalogue: Mapping[TableId, CatalogueTable],
    bronze_version: int,
    say: Callable[[str], None],
) -> dict[TableId, JobResult]:
    """What tasks have folded. A table that somebody else works, or that has failed, is left to its own job."""
    from spark.silver import small_tables

    layer = layer_of_lake("silver", chain.platform.lake)
    with ExitStack() as locks:
        specs = {}
        for table in sorted(tables, key=lambda table: table.name):  # in one order, so that two runs cannot wait for each other
            if table.id not in catalogue:
                continue
            try:
                spec = silver_spec(chain.platform.lake, chain.source, table, catalogue[table.id])
                if small_tables.reason_against(spec):
                    continue
                locks.enter_context(table_lock(layer, chain.source.name, names.table_name(table), deadline=0.0))
            except TableBusyError:
                continue
            specs[table.id] = spec
        if not specs:
            return {}
        specs = with_log_end(chain.source, specs, chain.platform.lake)
        small_spec = small_tables.SmallTablesSpec(tuple(specs.values()), bronze_version)
        try:
            outcomes = chain.platform.spark().run_in_tasks(small_tables.run, small_spec)
        except CdcAssetsError as error:
            say(f"no task could be given a table: {error}")
            return {}
    for table_id, outcome in zip(specs, outcomes, strict=True):
        if outcome.left:
            say(f"{table_id}: a job of its own folds it: {outcome.left}")
    return {table_id: o.result for table_id, o in zip(specs, outcomes, strict=True) if o.result is not None}


def fold_table(
    chain: Chain[BaseSource], table: Table, found: CatalogueTable, bronze_version: int, done: JobResult | None
) -> Results:
    """By a job of its own, unless it is `done`; and then its history."""
    from spark.silver import fold_job as silver_job
    from spark.silver import history_job

    with table_lock(layer_of_lake("silver", chain.platform.lake), chain.source.name, names.table_name(table)):
        spec: SilverSpec = replace(silver_spec(chain.platform.lake, chain.source, table, found), folded_limit=bronze_version)
        spec = with_log_end(chain.source, {table.id: spec}, chain.platform.lake)[table.id]
        result = done or chain.platform.spark().run(silver_job.run, spec)
        if table.history != "scd2":
            return result, None
        return result, chain.platform.spark().run(history_job.run, history_spec(chain.platform.lake, chain.source, table, spec))


MASK = "(sensitive)"
_LONGEST = 60


def preview(path: str, sensitive: Collection[str], rows: int) -> str:
    """At most so many rows, without our own columns; empty where there is no table, or only Spark reads it."""
    table = open_table(path) if rows else None
    if table is None or delta_rows.unread_features(table):
        return ""
    is_plain = delta_rows.is_plain(table)
    first_rows = open_dataset(table, path).head(rows) if is_plain else delta_rows.read_first(table, rows)
    names = [name for name in first_rows.column_names if not name.startswith("_cdc_")]
    lines = [[in_markdown(MASK) if name in sensitive else _text(row[name]) for name in names] for row in first_rows.to_pylist()]
    return "\n".join(map(_line, [[_text(name) for name in names], ["---"] * len(names), *lines]))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(value: object) -> str:
    """One cell: NULL as nothing, bytes in hex, what is long cut."""
    if value is None:
        return ""
    text = f"\\x{value.hex()}" if isinstance(value, bytes) else str(value)
    return in_markdown(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")
