"""What is computed of a table's rows by windows of event time: a frozen declaration that travels as JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from spark.errors import JobRefusedError
from spark.silver.column_ledger import OWN_PREFIX
from spark.specs import JsonSpec

FUNCTIONS = ("count", "sum", "min", "max", "distinct")
START, END, FINAL = "window_start", "window_end", "is_final"
EARLY, ON_TIME, LATE, AFTER_FINAL = "early", "on_time", "late", "after_final"
SIGN, PANE, PANE_COLUMNS = "pane_sign", "pane", ("pane_sign", "pane", "built_on", "silver_version", "computed_at")
OWN = (START, END, FINAL, *PANE_COLUMNS)
"""Names of columns that neither a key nor a measure may have."""


@dataclass(frozen=True)
class Measure:
    """One figure of a window: `function` of FUNCTIONS over `column`; a count without one counts rows."""

    name: str
    function: str
    column: str = ""

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS:
            raise JobRefusedError(f"measure {self.name}: {self.function!r} is none of {', '.join(FUNCTIONS)}")
        if not self.column and self.function != "count":
            raise JobRefusedError(f"measure {self.name}: {self.function} needs a column")


@dataclass(frozen=True)
class WindowedSpec(JsonSpec):
    """The windows of one table. Durations are in seconds.

    A window is `size` long, and one begins every `every` (as long as `size`: they tumble; shorter: they hop). `by` are the
    columns whose values have results of their own. The watermark is the newest event time among the rows less `delay`; a window
    is final once that has passed its end and `allowed_lateness`.
    `panes_path` is the log of what each run has said and taken back; `silver_limit` the version of silver to go up to.
    """

    source: str
    table: str
    name: str
    silver_path: str
    path: str
    panes_path: str
    event_time: str
    size: int
    every: int
    measures: tuple[Measure, ...]
    by: tuple[str, ...] = ()
    delay: int = 0
    allowed_lateness: int = 0
    silver_limit: int | None = None

    def __post_init__(self) -> None:
        what = f"windows {self.name} of {self.table}"
        if self.size <= 0 or self.every <= 0 or self.size % self.every:
            raise JobRefusedError(
                f"{what}: a window of {self.size} s does not begin every {self.every} s a whole number of times"
            )
        if self.delay < 0 or self.allowed_lateness < 0:
            raise JobRefusedError(f"{what}: delay {self.delay} s and allowed_lateness {self.allowed_lateness} s are not negative")
        names = [*self.by, *(measure.name for measure in self.measures)]
        if not self.measures or len(set(map(str.lower, names))) < len(names):
            raise JobRefusedError(f"{what}: there are measures, and each column has a name of its own; got {', '.join(names)}")
        if taken := [n for n in names if n.lower() in OWN or (n.lower().startswith(OWN_PREFIX) and n not in self.by)]:
            raise JobRefusedError(f"{what}: the name {', '.join(taken)} is a window's own")

    @property
    def keys(self) -> tuple[str, ...]:
        """What tells one result from another."""
        return (*self.by, START)

    @property
    def read(self) -> tuple[str, ...]:
        """The columns of silver that a result depends on, each once."""
        columns = (*self.by, self.event_time, *(m.column for m in self.measures if m.column))
        return tuple(dict.fromkeys(columns))

    @property
    def digest(self) -> str:
        """Of all that results depend on: with another one they are computed anew."""
        facts = {k: v for k, v in asdict(self).items() if k not in ("source", "table", "name", "silver_limit")}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]

    @classmethod
    def from_json(cls, text: str) -> WindowedSpec:
        """Read back what to_json wrote. Raises JobRefusedError: it is no such object, or asks for something impossible."""
        try:
            data: Mapping[str, Any] = json.loads(text)
            measures = tuple(Measure(**measure) for measure in data["measures"])
            return cls(**{**data, "measures": measures, "by": tuple(data["by"])})
        except (ValueError, KeyError, TypeError) as error:
            raise JobRefusedError(f"WindowedSpec: {error}") from error
