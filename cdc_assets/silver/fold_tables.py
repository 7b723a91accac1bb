"""The tables of a source up to a version of bronze: small ones by one Spark job for all, then the others by a job each.

Which table is small, and which batch a task can fold, is decided where the table is looked at (spark.small_tables). What a task
leaves is folded by a job of its own, with the same rows and the same commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TypeAlias

from cdc_assets import names
from cdc_assets.errors import CdcAssetsError, DatabaseError, TableBusyError, TableFailuresError
from cdc_assets.preflight.table_models import why_held
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.databases.catalogue import CatalogueTable
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.table_lock import layer_of_lake, table_lock
from cdc_assets.tables.each_table import each_table
from cdc_assets.tables.fold_refusals import absent_table
from cdc_assets.tables.fold_specs import history_spec, silver_spec
from cdc_assets.tables.log_ends import with_log_end
from spark.specs import JobResult, SilverSpec

Results: TypeAlias = tuple[JobResult, JobResult | None]
"""Silver's, and its history's where the table has one."""


def fold_tables(
    platform: Platform,
    source: BaseSource,
    tables: Sequence[Table],
    catalogue: Mapping[TableId, CatalogueTable],
    bronze_version: int,
    say: Callable[[str], None],
) -> Iterator[tuple[Table, Results]]:
    """Yield `(table, results)` as each is done; `say` is told which tables no task has folded, and why.

    Raises:
        TableFailuresError: at the end, naming the tables that failed.
    """
    folded = fold_small(platform, source, tables, catalogue, bronze_version, say)
    rest = []
    for table in tables:
        if table.id in folded and table.history != "scd2":
            yield table, (folded[table.id], None)
        else:
            rest.append(table)

    def fold(table: Table) -> Results:
        if table.id not in catalogue:
            raise DatabaseError(absent_table(source, table))
        return fold_table(platform, source, table, catalogue[table.id], bronze_version, folded.get(table.id))

    if rest:
        yield from each_table("silver", rest, fold)


def fold_others(
    platform: Platform,
    source: BaseSource,
    tables: Sequence[Table],
    catalogue: Mapping[TableId, CatalogueTable],
    bronze_version: int,
    say: Callable[[str], None],
) -> Iterator[tuple[Table, Results]]:
    """`fold_tables` of those that are not held: of these Debezium reads the rows by a model that is not the server's.

    What bronze has of a held table stays where it is.

    Raises:
        TableFailuresError: at the end, naming the tables that are held or failed.
    """
    held = why_held(platform, source, tables, catalogue)
    failed = {names.table_name(table): held[table.id] for table in tables if table.id in held}
    try:
        yield from fold_tables(platform, source, [t for t in tables if t.id not in held], catalogue, bronze_version, say)
    except TableFailuresError as error:
        failed |= error.failures
    if failed:
        raise TableFailuresError("silver", failed)


def fold_small(
    platform: Platform,
    source: BaseSource,
    tables: Sequence[Table],
    catalogue: Mapping[TableId, CatalogueTable],
    bronze_version: int,
    say: Callable[[str], None],
) -> dict[TableId, JobResult]:
    """What tasks have folded. A table that somebody else works, or that has failed, is left to its own job."""
    from spark.lake.place import is_reached
    from spark.small_tables import job as small_tables

    if not is_reached(platform.lake):
        return {}
    layer = layer_of_lake("silver", platform.lake)
    with ExitStack() as locks:
        specs = {}
        for table in sorted(tables, key=lambda table: table.name):  # in one order, so that two runs cannot wait for each other
            if table.id not in catalogue:
                continue
            try:
                spec = silver_spec(platform.lake, source, table, catalogue[table.id])
                if small_tables.reason_against(spec):
                    continue
                locks.enter_context(table_lock(layer, source.name, names.table_name(table), deadline=0.0))
            except TableBusyError:
                continue
            specs[table.id] = spec
        if not specs:
            return {}
        specs = with_log_end(source, specs, platform.lake)
        asked = small_tables.SmallTablesSpec(tuple(specs.values()), bronze_version)
        try:
            outcomes = platform.spark().run_in_tasks(small_tables.run, asked)
        except CdcAssetsError as error:
            say(f"no task could be given a table: {error}")
            return {}
    for table_id, outcome in zip(specs, outcomes, strict=True):
        if outcome.left:
            say(f"{table_id}: a job of its own folds it: {outcome.left}")
    return {table_id: o.result for table_id, o in zip(specs, outcomes, strict=True) if o.result is not None}


def fold_table(
    platform: Platform, source: BaseSource, table: Table, found: CatalogueTable, bronze_version: int, done: JobResult | None
) -> Results:
    """By a job of its own, unless it is `done`; and then its history."""
    from spark.history import job as history_job
    from spark.silver import job as silver_job

    with table_lock(layer_of_lake("silver", platform.lake), source.name, names.table_name(table)):
        spec: SilverSpec = replace(silver_spec(platform.lake, source, table, found), folded_limit=bronze_version)
        spec = with_log_end(source, {table.id: spec}, platform.lake)[table.id]
        result = done or platform.spark().run(silver_job.run, spec)
        if table.history != "scd2":
            return result, None
        return result, platform.spark().run(history_job.run, history_spec(platform.lake, source, table, spec))
