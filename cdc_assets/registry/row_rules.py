"""How a table's events become rows, which rows the lake keeps, and what is computed of them by windows of event time.

Names are as in AUTO CDC where it has one (docs/reference/rows.md). Rules that contradict each other are refused.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date, timedelta
from typing import Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr, model_validator

from cdc_assets.registry.field_types import Declared, Duration
from spark.errors import SpecError
from spark.specs import RowCondition
from spark.upkeep.declared_windows import Measure, WindowedSpec

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


class Rows(Declared):
    """What rows are known by, and what events do to them.

    `keys` declares the key of a table that has none in the database. Without it such a table is appended.
    `without_key: multiset` knows rows by all of their values instead: a delete or update takes one of the equal rows away
    (PostgreSQL: REPLICA IDENTITY FULL).
    `deletes: soft` keeps deleted rows, marked by `_cdc_deleted`. `truncate` says what a TRUNCATE at the source does: empty
    the table, mark its rows deleted, nothing, or stop the table.
    The last four are for topics that others fill with parts of rows. With `ignore_null_updates` a NULL leaves the column as
    it is. It is for all columns; the two lists are for those listed, or for all but those listed. `columns_to_update` is the
    column of an event that lists which columns it is about (NULL: all of them). Both mean the same in a history.
    `where` keeps a part of the rows: those of which all conditions hold (docs/reference/rows.md).
    """

    keys: tuple[str, ...] | None = None
    without_key: Literal["append", "multiset"] = "append"
    deletes: Literal["hard", "soft"] = "hard"
    truncate: Literal["apply", "soft", "ignore", "halt"] = "apply"
    history: Literal["scd1", "scd2"] = "scd1"
    ignore_null_updates: bool = False
    ignore_null_updates_column_list: tuple[str, ...] = ()
    ignore_null_updates_except_column_list: tuple[str, ...] = ()
    columns_to_update: str | None = None
    where: tuple[RowChoice, ...] = ()

    @property
    def partial(self) -> tuple[str, ...]:
        """The settings for parts of rows that are given."""
        names = ("ignore_null_updates", "ignore_null_updates_column_list", "ignore_null_updates_except_column_list")
        return tuple(name for name in (*names, "columns_to_update") if getattr(self, name))

    @model_validator(mode="after")
    def _one_way_to_update(self) -> Rows:
        lists = [name for name in self.partial if name != "columns_to_update"]
        if len(lists) > 1:
            raise ValueError(f"give one of {', '.join(lists)}, not {len(lists)}")
        named = {*self.ignore_null_updates_column_list, *self.ignore_null_updates_except_column_list, self.columns_to_update}
        keys = sorted(named & set(self.keys or ()), key=str)
        if keys:
            raise ValueError(f"{', '.join(map(str, keys))}: a column of the key is in every event, and cannot be left as it was")
        return self

    @model_validator(mode="after")
    def _rows_can_be_chosen(self) -> Rows:
        settings = {"deletes: soft": self.deletes == "soft", "without_key: multiset": self.without_key == "multiset"}
        settings |= dict.fromkeys(self.partial, True)
        if self.where and (refused := [name for name, is_set in settings.items() if is_set]):
            raise ValueError(f"{', '.join(refused)}: where keeps whole rows of a table with a key, and drops the others")
        return self

    @model_validator(mode="after")
    def _rows_are_known(self) -> Rows:
        if self.without_key != "multiset":
            return self
        settings = {"keys": self.keys, "deletes: soft": self.deletes == "soft", "truncate: soft": self.truncate == "soft"}
        settings["history: scd2"] = self.history == "scd2"
        refused = [name for name, is_set in settings.items() if is_set]
        if refused:
            raise ValueError(
                f"{', '.join(refused)}: without_key: multiset knows rows by their values, and not which row is which"
            )
        return self


class WindowedResults(Declared):
    """Figures of a table's rows by windows of event time (docs/how-to/windows.md).

    `event_time` is the column that says when a row happened. A window is `size` long. One begins every `every`: by default
    they do not overlap. `by` are columns whose values have results of their own.
    `measures` are the figures by name. Each is `count`, `count COLUMN`, or `sum`, `min`, `max` or `distinct` with a column.
    The watermark is the newest event time less `delay`. A window is final once the watermark has passed its end and
    `allowed_lateness`. `trigger` is how often silver is looked at.
    """

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")
    event_time: str
    size: Duration
    every: Duration | None = None
    by: tuple[str, ...] = ()
    measures: dict[str, str] = Field(min_length=1)
    delay: Duration = timedelta(0)
    allowed_lateness: Duration = timedelta(hours=1)
    trigger: Duration = timedelta(minutes=1)

    def spec(self, *, source: str, table: str, silver_path: str, path: str) -> WindowedSpec:
        """As the job has it; its log of panes lies beside the results.

        Raises:
            SpecError: it asks for something impossible.
        """
        durations = {"size": self.size, "every": self.every or self.size, "delay": self.delay}
        durations["allowed_lateness"] = self.allowed_lateness
        figures = {name: figure.partition(" ") for name, figure in self.measures.items()}
        return WindowedSpec(
            source,
            table,
            self.name,
            silver_path,
            path,
            f"{path}__panes",
            event_time=self.event_time,
            measures=tuple(Measure(name, function, column.strip()) for name, (function, _, column) in figures.items()),
            by=self.by,
            **{name: _whole_seconds(name, value) for name, value in durations.items()},
        )

    @model_validator(mode="after")
    def _can_be_computed(self) -> WindowedResults:
        try:
            self.spec(source="", table="", silver_path="", path="")
        except SpecError as error:
            raise ValueError(str(error)) from error
        return self


def refuse_windows(windows: Sequence[WindowedResults], sensitive: Collection[str]) -> None:
    """Refuse what windows must not show, which is values of sensitive columns, and names that are there twice.

    Raises:
        ValueError: naming the windows and why.
    """
    names = [results.name for results in windows]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"windows: {', '.join(twice)} is there twice")
    for results in windows:
        shown = {
            *results.by,
            *(figure.partition(" ")[2] for figure in results.measures.values() if figure.startswith(("min ", "max "))),
        }
        if hidden := sorted(shown & set(sensitive)):
            raise ValueError(f"windows.{results.name} shows values of {', '.join(hidden)}, which is declared sensitive")


def _whole_seconds(name: str, value: timedelta) -> int:
    seconds = value.total_seconds()
    if seconds != int(seconds):
        raise SpecError(f"{name}: {seconds} s is no whole number of seconds")
    return int(seconds)
