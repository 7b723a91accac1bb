"""A table whose columns may be declared."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from cdc_assets.registry.base_table import Table
from cdc_assets.registry.identifiers import refuse_own_names


class DeclaredTable(Table):
    """A table whose columns may be declared. Without `columns` the source's catalogue tells them, and its key.

    `columns` gives each column's type as PostgreSQL would write it. A column that is never NULL has `not null` behind it.
    What is declared stands: the catalogue is not asked (docs/reference/databases.md).
    """

    columns: dict[str, Annotated[str, Field(min_length=1)]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _keys_are_columns(self) -> DeclaredTable:
        unknown = [key for key in self.keys or () if self.columns and key not in self.columns]
        if unknown:
            raise ValueError(f"keys that are not among the columns {', '.join(self.columns)}: {', '.join(unknown)}")
        refuse_own_names(name for name in self.columns if name not in self.except_column_list)
        return self
