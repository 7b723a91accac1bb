"""What is computed of a table by windows of event time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta

from pydantic import Field, model_validator

from cdc_assets.registry.declared import Declared
from cdc_assets.registry.durations import Duration
from spark.errors import SpecError
from spark.windowed.declared_windows import Measure, WindowedSpec


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
        return WindowedSpec(
            source,
            table,
            self.name,
            silver_path,
            path,
            f"{path}__panes",
            event_time=self.event_time,
            measures=tuple(_measure(name, said) for name, said in self.measures.items()),
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
    names = [each.name for each in windows]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"windows: {', '.join(twice)} is there twice")
    for each in windows:
        shown = {*each.by, *(said.partition(" ")[2] for said in each.measures.values() if said.startswith(("min ", "max ")))}
        if hidden := sorted(shown & set(sensitive)):
            raise ValueError(f"windows.{each.name} shows values of {', '.join(hidden)}, which is declared sensitive")


def _measure(name: str, said: str) -> Measure:
    function, _, column = said.partition(" ")
    return Measure(name, function, column.strip())


def _whole_seconds(name: str, value: timedelta) -> int:
    seconds = value.total_seconds()
    if seconds != int(seconds):
        raise SpecError(f"{name}: {seconds} s is no whole number of seconds")
    return int(seconds)
