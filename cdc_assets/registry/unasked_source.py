"""Source databases of which no place in the log is asked: their tables' columns are declared, or translated from a catalogue.

MySQL, SQL Server, Oracle and MongoDB: the connector is ours, and topic, mirror, bronze, silver and backup are as for every
source. Rows are compared in two steps (docs/reference/databases.md).
"""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field, model_validator

from cdc_assets.kinds import kind_of
from cdc_assets.registry.database_kinds import DeclaredDatabase
from cdc_assets.registry.declared_table import DeclaredTable
from cdc_assets.registry.models import CapturedSource
from cdc_assets.registry.reconciliation import ROWS_EVERY


class UnaskedSource(CapturedSource):
    """A source database whose tables may declare their columns. Who declares columns declares `keys` too: what a row is known by.
    They become the record's key.
    """

    database: DeclaredDatabase
    tables: tuple[DeclaredTable, ...] = Field(min_length=1)

    @property
    def rows_every(self) -> timedelta | None:
        """As declared; else once a day, where the place of its log can be told: by the server itself, or by a marker's row."""
        if self.reconciliation.every is not None:
            return super().rows_every
        tells = kind_of(self).database is not None or self.reconciliation.marker is not None
        return ROWS_EVERY if tells else None

    @model_validator(mode="after")
    def _has_keys(self) -> UnaskedSource:
        keyless = [table.name for table in self.tables if table.columns and not table.keys]
        if keyless:
            raise ValueError(
                f"{', '.join(keyless)} without keys: with declared columns kind {self.database.kind} is not asked for keys, "
                "declare them"
            )
        unknown = [table.name for table in self.tables if not table.columns]
        if unknown and kind_of(self).columns is None:
            raise ValueError(
                f"{', '.join(unknown)} without columns: kind {self.database.kind} is not asked for columns, declare them"
            )
        other = {table.name: why for table in self.tables if table.keys and (why := self.database.key_refusal(table.keys))}
        if other:
            raise ValueError(f"{', '.join(other)}: {'; '.join({*other.values()})}")
        return self
