"""What the folding jobs of one table need: silver's and the history's specs, from the declaration and the catalogue.

A table is refused that no later run can fold: the columns of the source and of silver contradict each other, and time mends
nothing.

A spec says where the source's log ended when it was asked, after bronze had its events: none of them can lie beyond. Who may
write one topic, or a broken connector, can send an event of any position. Beyond the log it would win over all that the source
writes for years; the fold holds it in quarantine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from cdc_assets.capture.connectors.setting_overrides import PUBLIC
from cdc_assets.capture.kind_capture import capture_of
from cdc_assets.capture.source_columns import catalogue_of, source_columns
from cdc_assets.clients.databases.catalogue import CatalogueTable
from cdc_assets.clients.delta_log import bronze_committed
from cdc_assets.clients.schema_ledger import last_known, ledger_of
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names
from cdc_assets.registry.errors import CdcAssetsError, DatabaseError, SettingError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.record_formats import DEBEZIUM_UNAVAILABLE
from spark.specs import Column, SilverSpec


def last_known_table(lake: str, source: BaseSource, table: Table) -> CatalogueTable | None:
    """A table that the source has no more, as silver has folded it last; None where it is declared to halt then."""
    if (table.schema_changes or source.schema_changes).drop_table == "halt":
        return None
    return last_known(names.silver_path(lake, source, table), table.id)


def catalogue_or_last_known(
    chain: Chain[BaseSource], tables: Sequence[Table], say: Callable[[str], object]
) -> dict[TableId, CatalogueTable]:
    """The tables as the source has them now; one that it has no more as it was known last.
    Raises DatabaseError: the source cannot be asked."""
    catalogue = dict(catalogue_of(chain, tables))
    for table in tables:
        if table.id not in catalogue and (gone := last_known_table(chain.platform.lake, chain.source, table)):
            catalogue[table.id] = gone
            say(f"{table.name}: the source has no such table any more; folded as it was known last")
    return catalogue


def silver_spec(lake: str, source: BaseSource, table: Table, found: CatalogueTable) -> SilverSpec:
    """What the job needs, from the declaration and the catalogue."""
    return SilverSpec(
        source=source.name,
        table=names.table_name(table),
        bronze_path=names.bronze_path(lake, source),
        path=names.silver_path(lake, source, table),
        columns=source_columns(source, table, found),
        keys=() if table.without_key == "multiset" else table.keys or found.primary_key,
        without_key=table.without_key,
        generation=found.generation,
        drops=found.drops,
        ignore_null_updates=_null_ignored(table, source_columns(source, table, found)),
        columns_to_update=table.columns_to_update or "",
        unavailable=(source.captured.capture.unchanged_text or PUBLIC) if source.captured else DEBEZIUM_UNAVAILABLE,
        schema_changes=(table.schema_changes or source.schema_changes).model_dump(),
        renamed=table.renamed,
        **source.record_form(table),
        deletes=table.deletes,
        truncate=table.truncate,
        quarantine_path=names.quarantine_path(lake, source, table),
        quarantine_limit=table.quarantine.max_records,
        portable=source.is_portable(table),
        past=names.past_path(lake, source, table),
        where=tuple(row_filter.condition for row_filter in table.where),
        foreign=source.captured is None,
        excluded=tuple(c.name for c in found.columns if c.name in table.except_column_list),
    )


def _null_ignored(table: Table, columns: Sequence[Column]) -> tuple[str, ...]:
    listed, spared = table.ignore_null_updates_column_list, table.ignore_null_updates_except_column_list
    if not (table.ignore_null_updates or spared):
        return listed
    return tuple(c.name for c in columns if c.name not in (*spared, *(table.keys or ()), table.columns_to_update))


def history_spec(lake: str, source: BaseSource, table: Table, silver: SilverSpec) -> SilverSpec:
    """The same for the table of all versions. Raises SettingError: nothing tells which rows are versions of one."""
    if not silver.keys:
        raise SettingError(f"{source.name}/{silver.table}: history: scd2 needs a key; declare the table's keys")
    tracked = table.track_history_column_list
    if table.track_history_except_column_list:
        left_out = {*table.track_history_except_column_list, *silver.keys}
        tracked = tuple(c.name for c in silver.columns if c.name not in left_out)
    return replace(silver, path=names.history_path(lake, source, table), track_history=tracked)


def refusals_now(chain: Chain[BaseSource], tables: Sequence[Table]) -> dict[TableId, str]:
    """Of each table that cannot be folded any more why, and the command that mends it; by one question to the source.

    A source that cannot be asked has none: its runs fail, and go on once it answers.
    """
    try:
        catalogue = catalogue_or_last_known(chain, tables, lambda _: None)
    except CdcAssetsError:
        return {}
    return fold_refusals(chain.platform.lake, chain.source, tables, catalogue)


def fold_refusals(
    lake: str, source: BaseSource, tables: Sequence[Table], catalogue: Mapping[TableId, CatalogueTable]
) -> dict[TableId, str]:
    """The same by a catalogue that was read already; silver's and the histories' ledgers are read, and no rows."""
    refusals = {table.id: _refusal(lake, source, table, catalogue.get(table.id)) for table in tables}
    return {table: reason for table, reason in refusals.items() if reason}


def absent_table(source: BaseSource, table: Table) -> str:
    """What is told of a declared table that the source has no more, and that nothing folds as it was known last."""
    return f"the database of source {source.name} has no table {table.name} any more"


def _refusal(lake: str, source: BaseSource, table: Table, now: CatalogueTable | None) -> str:
    from spark.errors import TableStopError
    from spark.silver.schema_evolution import compare_columns

    ledger = ledger_of(names.silver_path(lake, source, table))
    if ledger is None:
        return ""
    if now is None:
        return absent_table(source, table)
    try:
        spec = silver_spec(lake, source, table, now)
        compare_columns(ledger, spec, after="")
        past = ledger_of(names.history_path(lake, source, table)) if table.history == "scd2" else None
        if past is not None:
            compare_columns(past, history_spec(lake, source, table, spec), after="")
    except (TableStopError, SettingError) as error:
        return str(error)
    return ""


def current_spec(chain: Chain[BaseSource], table: Table) -> SilverSpec:
    """Its columns as the source's catalogue shows them now, or as silver knew them last where the source has dropped it.
    Raises DatabaseError: the source has no such table, or cannot be asked."""
    catalogued = dict(catalogue_of(chain, [table])).get(table.id) or last_known_table(chain.platform.lake, chain.source, table)
    if catalogued is None:
        raise DatabaseError(absent_table(chain.source, table))
    return silver_spec(chain.platform.lake, chain.source, table, catalogued)


def with_log_end(source: BaseSource, specs: Mapping[TableId, SilverSpec], lake: str) -> dict[TableId, SilverSpec]:
    """The specs, whose `folded_limit` bronze had before the call, with the end that the source's log has now.

    Not where the server may be another one than was read, or was restored: its log may end before true events, until there is an
    epoch for it. Of PostgreSQL alone: its witness tells that. MongoDB's places are moments of several clocks.

    What lies beyond it the fold holds in quarantine (spark.silver.typed_changes.FUTURE).

    Raises DatabaseError: the source cannot be asked.
    """
    from spark.events.positions import epoch_prefix

    captured = source.captured
    log_end = capture_of(source).log_end
    if captured is None or log_end is None or not specs or not (end := log_end(captured)):
        return dict(specs)
    committed = bronze_committed(names.bronze_path(lake, source))
    topics = committed.topics.values() if committed else ()
    epochs = {spec.table: max((t.epoch for t in topics if t.table == spec.table), default=0) for spec in specs.values()}
    return {key: replace(spec, log_end=f"{epoch_prefix(epochs[spec.table])}{end}") for key, spec in specs.items()}
