"""A MySQL source as it is compared at an exact cut: its tables with types as PostgreSQL would write them, and its log."""

from __future__ import annotations

from collections.abc import Sequence

from cdc_assets.registry.identifiers import TableId
from cdc_assets.resources.columns.mysql import translate_table
from cdc_assets.resources.databases.catalogue import CatalogueTable
from cdc_assets.resources.databases.mysql_capture import MySqlCapture


class MySqlDatabase(MySqlCapture):
    """One source server that is a MySQL (`catalogue.SourceDatabase`)."""

    def tables(self, ids: Sequence[TableId]) -> dict[TableId, CatalogueTable]:
        """The catalogue's view of each table that exists, with translated types."""
        return {id_: translate_table(table) for id_, table in self.tables_in_own_types(ids).items()}

    def misread(self, table: CatalogueTable, columns: Sequence[str], *, snapshot: bool) -> dict[str, str]:
        """By the types that the columns have in the database."""
        return MySqlCapture(self._database).misread(table, columns, snapshot=snapshot)
