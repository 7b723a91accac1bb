"""Which rows of a table the lake keeps: conditions on the values of single columns, all of which hold of a row that is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spark.errors import SpecError


@dataclass(frozen=True)
class RowCondition:
    """A column has one of these values, or (`excluded`) none of them. Values are texts; None is NULL, a value like the others."""

    column: str
    values: tuple[str | None, ...]
    excluded: bool = False

    @classmethod
    def from_dict(cls, data: Any) -> RowCondition:
        """From its JSON object.

        Raises:
            SpecError: it is none.
        """
        try:
            known = {**data, "values": tuple(data["values"])}
            return cls(**known)
        except (TypeError, KeyError) as error:
            raise SpecError(f"a condition on rows has column, values and excluded; got {data!r}") from error

    @property
    def text(self) -> str:
        """For people: `region in (EU, NULL)`."""
        listed = ", ".join("NULL" if value is None else value for value in self.values)
        return f"{self.column} {'not in' if self.excluded else 'in'} ({listed})"


def conditions_text(conditions: Sequence[RowCondition]) -> str:
    """All of them, for people."""
    return " and ".join(each.text for each in conditions) or "all rows"


def refuse_conditions(table: str, where: Sequence[RowCondition], columns: Sequence[str], refused: dict[str, bool]) -> None:
    """Refuse conditions on columns that are not there, and together with rules (`refused`) that know no state of a row.

    Raises:
        SpecError: naming them.
    """
    if unknown := [each.column for each in where if each.column not in columns]:
        raise SpecError(f"table {table}: where: {unknown} are not among its columns {[*columns]}")
    if where and (found := [name for name, holds in refused.items() if holds]):
        raise SpecError(f"table {table}: where keeps rows by their values, which goes not together with {', '.join(found)}")
