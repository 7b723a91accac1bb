"""Source databases whose catalogue is not asked: their tables' columns are declared.

MySQL, SQL Server, Oracle and MongoDB: the connector is ours, and topic, mirror, bronze, silver and backup are as for every
source. Onboarding takes MySQL only, and rows are compared in two steps (docs/reference/databases.md).
"""

from __future__ import annotations

from pydantic import Field, model_validator

from cdc_assets.registry.database_kinds import DeclaredDatabase
from cdc_assets.registry.declared_table import DeclaredTable
from cdc_assets.registry.models import CapturedSource


class UnaskedSource(CapturedSource):
    """A source database that is not asked for columns. `keys` are what a row is known by there: they become the record's key."""

    database: DeclaredDatabase
    tables: tuple[DeclaredTable, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _has_keys(self) -> UnaskedSource:
        keyless = [table.name for table in self.tables if not table.keys]
        if keyless:
            raise ValueError(f"{', '.join(keyless)} without keys: kind {self.database.kind} is not asked for keys, declare them")
        other = {table.name: why for table in self.tables if (why := self.database.key_refusal(table.keys or ()))}
        if other:
            raise ValueError(f"{', '.join(other)}: {'; '.join({*other.values()})}")
        return self
