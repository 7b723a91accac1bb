"""Models between two looks that no look has compared with the server's catalogue, and that nothing else confirms; pure.

The catalogue is of now: it tells whether the newest model is right. What an older model has as the newest has it, or as the one
before it had it, is right too. What a statement brought and a later one took back was never seen beside the server's own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cdc_assets.quantity import quantity
from cdc_assets.resources.column_readings import reading_of_model
from cdc_assets.resources.table_models import TableModel


@dataclass(frozen=True)
class DoubtfulModel:
    """A model that nobody can compare any more, and the one that followed it.

    `is_corrected`: the server's definition followed, and no statement was between: it was wrong at its end.
    """

    model: TableModel
    after: TableModel

    @property
    def is_corrected(self) -> bool:
        """Whether the server was asked for the definition that followed."""
        return not self.after.place


@dataclass(frozen=True)
class DoubtfulRows:
    """Rows that silver has not folded, and that were read by such a model. None: nobody can count them."""

    rows: int | None
    doubt: DoubtfulModel

    @property
    def text(self) -> str:
        """For people, without the way to mend it."""
        why = "was not the server's" if self.doubt.is_corrected else "was never compared with the server's table"
        rows = "events (they cannot be counted)" if self.rows is None else quantity(self.rows, "event")
        return (
            f"{rows} that silver has not folded yet came by a model that {why}, since "
            f"{self.doubt.model.since}, before {self.doubt.after.since}. Model: {self.doubt.model.text}. "
            f"Then: {self.doubt.after.text}"
        )


def doubtful_models(models: Sequence[TableModel], signed: Collection[str] = ()) -> list[DoubtfulModel]:
    """Of a table's models, oldest first, those that neither their neighbours nor the newest confirm.

    `signed`: see `reading_of_model`.
    """
    return [
        DoubtfulModel(model, after)
        for number, (model, after) in enumerate(pairwise(models))
        if not after.place or _is_alone(model, models[number - 1] if number else None, models[-1], signed)
    ]


def _is_alone(model: TableModel, before: TableModel | None, newest: TableModel, signed: Collection[str]) -> bool:
    if before is None and not model.place:
        return False  # the server's own words
    if _are_in_other_order(model, newest) and (before is None or _names(before) != _names(model)):
        return True
    others = [other for other in (before, newest) if other is not None]
    there = {column.name for column in newest.columns}
    readings = [dict(_readings(other, signed)) for other in others]
    return any(
        name in there and all(reading != known.get(name) for known in readings) for name, reading in _readings(model, signed)
    )


def _are_in_other_order(one: TableModel, other: TableModel) -> bool:
    names, others = _names(one), _names(other)
    return [name for name in names if name in others] != [name for name in others if name in names]


def _names(model: TableModel) -> list[str]:
    return [column.name for column in model.columns]


def _readings(model: TableModel, signed: Collection[str]) -> Iterator[tuple[str, str]]:
    for column in model.columns:
        yield column.name, reading_of_model(column, signed)
