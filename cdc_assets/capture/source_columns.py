"""The columns that a table has: from the source's catalogue, or from the declaration, which stands where there is one.

What is left out is left out here. A table that neither tells of is refused by who asks for its columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cdc_assets.clients import delta_rows
from cdc_assets.clients.databases.catalogue import CatalogueColumn, CatalogueTable
from cdc_assets.clients.delta_log import open_table
from cdc_assets.clients.schema_history import with_schema_history
from cdc_assets.clients.schema_ledger import last_known
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.kinds import kind_of
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource
from cdc_assets.registry.table_declaration import Table, TopicTable
from spark.errors import quantity
from spark.silver.column_ledger import ATTRIBUTES, RELABEL, ColumnChange, ColumnLedger, labels_of
from spark.specs import Column
from spark.table.identifiers import double_quote, text_literal

_NOT_NULL = " not null"


def catalogue_of(chain: Chain[BaseSource], tables: Sequence[Table]) -> Mapping[TableId, CatalogueTable]:
    """The tables that there are, with their columns.
    Raises DatabaseError: the source cannot be asked for columns that nobody declares."""
    if asked_source := chain.source.asked:
        catalogue = chain.platform.database(asked_source).tables([table.id for table in tables])
        return _with_binlog_statements(Chain(chain.platform, asked_source), catalogue)
    declared = {table.id: catalogue_table(table) for table in tables if table.declared_columns}
    others = [table for table in tables if table.id not in declared]
    if not others or chain.source.captured is None:
        return declared
    return declared | _ask_catalogue(Chain(chain.platform, chain.source.captured), others)


def without_columns(source: CapturedSource) -> tuple[Table, ...]:
    """The tables whose columns the source's catalogue tells."""
    return tuple(table for table in source.tables if not table.declared_columns)


def catalogue_table(table: Table) -> CatalogueTable:
    """A table as its declaration describes it."""
    columns = []
    for name, text in table.declared_columns.items():
        required = text.lower().endswith(_NOT_NULL)
        kind = text[: -len(_NOT_NULL)].strip() if required else text.strip()
        columns.append(CatalogueColumn(name, kind, not required))
    return CatalogueTable(table.id, tuple(columns), table.keys or ())


def columns_as_declared(source: CapturedSource, found: Mapping[TableId, CatalogueTable]) -> dict[TableId, CatalogueTable]:
    """The tables that a catalogue has, with the columns that are declared, where they are."""
    declared = {table.id: catalogue_table(table) for table in source.tables if table.declared_columns}
    return {id_: declared.get(id_, table) for id_, table in found.items()}


def _with_binlog_statements(
    chain: Chain[CapturedSource], catalogue: Mapping[TableId, CatalogueTable]
) -> Mapping[TableId, CatalogueTable]:
    """With what only the binlog's statements tell: that a table was dropped and made again."""
    if not kind_of(chain.source).binlog:
        return catalogue
    topic = names.schema_history_topic(chain.source)
    return with_schema_history(chain.platform.core_kafka(chain.source.cluster), topic, catalogue)


def _ask_catalogue(chain: Chain[CapturedSource], tables: Sequence[Table]) -> dict[TableId, CatalogueTable]:
    catalogue = chain.platform.columns(chain.source).tables([table.id for table in tables])
    catalogue = dict(_with_binlog_statements(chain, catalogue))
    if not kind_of(chain.source).by_sample:
        return catalogue
    for table in tables:
        from_silver = last_known(chain.silver_path(table), table.id)
        sampled = catalogue.get(table.id)
        if from_silver is not None and sampled is not None:
            # The columns that silver has, as it has them, and those that are new: another sample says nothing of the others.
            there = {column.name for column in from_silver.columns}
            columns = (*from_silver.columns, *(column for column in sampled.columns if column.name not in there))
            catalogue[table.id] = CatalogueTable(sampled.id, columns, sampled.primary_key)
    return catalogue


def source_columns(source: BaseSource, table: Table, found: CatalogueTable) -> tuple[Column, ...]:
    """The captured columns with their types, and how their values are written."""
    values = table.values if isinstance(table, TopicTable) else source.captured.values if source.captured else None
    modes = values.modes if values else ""
    dialect = kind_of(source).dialect
    accepted = frozenset(table.accept_inexact)
    return tuple(
        Column(
            c.name,
            c.type,
            c.nullable,
            c.kind,
            c.name in accepted,
            c.number,
            c.missing,
            c.defaulted,
            modes=modes,
            dialect=dialect,
            members=c.members,
        )
        for c in found.columns
        if c.name not in table.except_column_list
    )


# Rows of silver with labels or attributes of a type that the source has changed since: one cause, of which no event tells.
#
# Two ask: the check `schema` counts such rows, and a comparison of rows says why they differ.
def rows_with_old_members(source: BaseSource, table: Table, path: str, ledger: ColumnLedger) -> Iterator[str]:
    """A sentence where rows wait for what their columns' types have by now; nothing where none does."""
    told = []
    for change, after in ledger.changes_of(RELABEL, ATTRIBUTES):
        rows = _count(path, ledger, change, after) if change.was else 0
        if rows != 0:
            told.append(f"{cause_of(change)} ({'rows unknown' if rows is None else quantity(rows, 'row')} from before)")
    if told:
        yield f"no event tells of a change of a type: {'; '.join(told)}. {_mend(source, table)}"


def cause_of(change: ColumnChange) -> str:
    """One change of a column's type, in a sentence."""
    if change.kind == ATTRIBUTES:
        return f"column {change.column}: its type's attributes were ({change.was}) and are ({change.now}) now"
    if change.now:
        return f"column {change.column}: label {change.was!r} is called {change.now!r} now"
    lost = f", without label {change.was!r}" if change.was else ""
    return f"column {change.column}: another type took the place of the one before{lost}"


def _mend(source: BaseSource, table: Table) -> str:
    return f"To read these rows again: cdc reconcile {source.name}.{names.table_name(table)} --heal"


def _count(path: str, ledger: ColumnLedger, change: ColumnChange, after: str) -> int | None:
    """Rows with the old member; None where delta-rs cannot say. Where the type has the label again, newer rows mean that."""
    table = open_table(path)
    if table is None or not delta_rows.has_column(table, change.column):
        return 0
    (column,) = [each for each in ledger.columns if each.name == change.column]
    name, folded = double_quote(change.column), f"_cdc_position <= {text_literal(after)}"
    if change.kind == ATTRIBUTES:
        return delta_rows.count_where(table, f"{name} IS NOT NULL AND {folded}")
    label = text_literal(change.was)
    has_label = f"array_has({name}, {label})" if column.source_type.endswith("[]") else f"{name} = {label}"
    return delta_rows.count_where(table, f"{has_label} AND {folded}" if change.was in labels_of(column) else has_label)
