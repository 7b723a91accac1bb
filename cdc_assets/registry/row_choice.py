"""Which rows of a table the lake keeps (docs/reference/rows.md)."""

from __future__ import annotations

from datetime import date

from pydantic import Field, StrictBool, StrictInt, StrictStr, model_validator

from cdc_assets.registry.declared import Declared
from spark.kinds.row_conditions import RowCondition

Value = StrictBool | StrictInt | date | StrictStr | None


class RowChoice(Declared):
    """A condition on the values of one column: whole numbers, booleans, dates or texts.

    `one_of` keeps rows that have one of these values, `none_of` those that have none of them. `null` is a value like the
    others. A text is compared by its code points, whatever the collation at the source.
    """

    column: str
    one_of: tuple[Value, ...] = Field(default=())
    none_of: tuple[Value, ...] = Field(default=())

    @model_validator(mode="after")
    def _says_one_thing(self) -> RowChoice:
        if bool(self.one_of) == bool(self.none_of):
            raise ValueError(f"where: column {self.column}: give values as one_of or as none_of")
        return self

    @property
    def condition(self) -> RowCondition:
        """As the job has it."""
        values = {_text(value) for value in self.one_of or self.none_of}
        listed = sorted(value for value in values if value is not None)
        return RowCondition(self.column, (*listed, *([None] if None in values else [])), excluded=bool(self.none_of))


def _text(value: Value) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else value.isoformat() if isinstance(value, date) else str(value)
