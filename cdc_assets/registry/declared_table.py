"""A table whose columns are declared, where no catalogue can be asked for them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from cdc_assets.registry.base_table import Table


class DeclaredTable(Table):
    """A table whose columns are declared.

    `columns` gives each column's type as PostgreSQL would write it. A column that is never NULL has `not null` behind it.
    """

    columns: dict[str, Annotated[str, Field(min_length=1)]] = Field(min_length=1)

    @model_validator(mode="after")
    def _keys_are_columns(self) -> DeclaredTable:
        unknown = [key for key in self.keys or () if key not in self.columns]
        if unknown:
            raise ValueError(f"keys that are not among the columns {', '.join(self.columns)}: {', '.join(unknown)}")
        return self
