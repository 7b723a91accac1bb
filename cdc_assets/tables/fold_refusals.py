"""Tables that no later run can fold: the columns of the source and of silver contradict each other, and time mends nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cdc_assets import names
from cdc_assets.errors import CdcAssetsError, HistoryWithoutKeyError
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.databases.catalogue import CatalogueTable
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.schema_ledger import ledger_of, ledger_of_history
from cdc_assets.tables.fold_specs import catalogue_or_last_known, history_spec, silver_spec


def refusals_now(platform: Platform, source: BaseSource, tables: Sequence[Table]) -> dict[TableId, str]:
    """Of each table that cannot be folded any more why, and the command that mends it; by one question to the source.

    A source that cannot be asked has none: its runs fail, and go on once it answers.
    """
    try:
        catalogue = catalogue_or_last_known(platform, source, tables, lambda _: None)
    except CdcAssetsError:
        return {}
    return fold_refusals(platform.lake, source, tables, catalogue)


def fold_refusals(
    lake: str, source: BaseSource, tables: Sequence[Table], catalogue: Mapping[TableId, CatalogueTable]
) -> dict[TableId, str]:
    """The same by a catalogue that was read already; silver's and the histories' ledgers are read, and no rows."""
    found = {table.id: _refusal(lake, source, table, catalogue.get(table.id)) for table in tables}
    return {table: reason for table, reason in found.items() if reason}


def absent_table(source: BaseSource, table: Table) -> str:
    """What is told of a declared table that the source has no more, and that nothing folds as it was known last."""
    return f"the database of source {source.name} has no table {table.name} any more"


def _refusal(lake: str, source: BaseSource, table: Table, now: CatalogueTable | None) -> str:
    from spark.errors import SchemaMismatchError
    from spark.schema.evolution import compare_columns

    ledger = ledger_of(names.silver_path(lake, source, table))
    if ledger is None:
        return ""
    if now is None:
        return absent_table(source, table)
    try:
        spec = silver_spec(lake, source, table, now)
        compare_columns(ledger, spec, after="")
        past = ledger_of_history(names.history_path(lake, source, table)) if table.history == "scd2" else None
        if past is not None:
            compare_columns(past, history_spec(lake, source, table, spec), after="")
    except (SchemaMismatchError, HistoryWithoutKeyError) as error:
        return str(error)
    return ""
