"""MySQL: columns that nobody declares are the catalogue's, translated, and the signal table is one that the registry names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from cdc_assets import names
from cdc_assets.errors import DatabaseError
from cdc_assets.kinds import expect
from cdc_assets.onboarding.kinds.binlog import BinlogKind
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import CapturedSource
from cdc_assets.registry.mysql import MySql
from cdc_assets.resources.columns.mysql import translate_table
from cdc_assets.resources.databases.catalogue import CatalogueTable
from cdc_assets.resources.databases.mysql_capture import MySqlCapture
from cdc_assets.tables.source_catalogue import columns_as_declared, registry_columns

if TYPE_CHECKING:
    from cdc_assets.onboarding.work import OnboardingWork


class MySqlKind(BinlogKind):
    """Onboarding of tables in MySQL (`work.OnboardingKind`)."""

    def database(self, source: CapturedSource) -> MySqlCapture:
        """The source's MySQL, opened for capture."""
        return MySqlCapture(expect(source.database, MySql))

    def columns(self, work: OnboardingWork, found: Mapping[TableId, CatalogueTable]) -> Mapping[TableId, CatalogueTable]:
        """As they are declared, else with PostgreSQL's types."""
        return columns_as_declared(work.after, {id_: translate_table(table) for id_, table in found.items()})

    def why_uncountable(self, work: OnboardingWork) -> str:
        """Not where the server must not be locked: then no place of the binlog is that of a count."""
        return "" if self.database(work.declared).locks else "snapshot_locking is none, and without a lock no count has a place"

    def tables_to_define(self, work: OnboardingWork) -> tuple[Table, ...]:
        """The signal table's as well, which the running connector may not have had."""
        signals = names.signal_declaration(work.after)
        return (*work.tables, Table(name=signals)) if signals and work.state.route == "incremental" else work.tables

    def unready(self, work: OnboardingWork, ids: Sequence[TableId]) -> list[str]:
        """What must be declared before, and what the role must be granted besides what capture needs."""
        database = self.database(work.declared)
        found = database.tables(ids)
        findings = [each for table in work.tables for each in _declaration_problems(table, found.get(table.id))]
        if work.state.route == "incremental" and names.signal_declaration(work.declared) is None:
            table = names.signal_table(work.declared)
            findings.append(f"no signal table is declared; declare one: reconciliation: {{signals: {table}}}; it is made then")
        if work.state.route == "temporary" and not database.locks:
            findings.append(
                "snapshot_locking is none: rows of a temporary connector would carry a place of the binlog that is not theirs; "
                "take route incremental"
            )
        try:
            database.pending_transactions()
        except DatabaseError as error:
            findings.append(
                f"{error}; prepared transactions must be seen: GRANT XA_RECOVER_ADMIN ON *.* TO '{database.user}'@'%'"
            )
        return findings


def _declaration_problems(table: Table, found: CatalogueTable | None) -> Iterator[str]:
    columns = {c.name: c for c in found.columns} if found else {}
    missing = [name for name in registry_columns(table) if found and name not in columns]
    if missing:
        yield f"{table.name} has no column {', '.join(missing)}, which the registry declares; it has: {', '.join(columns)}"
    nullable = [key for key in table.keys or () if key in columns and columns[key].nullable]
    if nullable:
        yield f"{table.name}: keys that may be NULL: {', '.join(nullable)}; declare other keys, or make them NOT NULL"
