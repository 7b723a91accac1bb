"""A scenario's runs as one row: median, spread, and whether it reaches its figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from benchmarks.bench.carry import Took

OURS, LIMIT = "cdc_assets", "spark: kafka to noop"
_TOLERATED = 1.15
"""So much above its figure is within what a machine's noise makes of a run."""
COLUMNS = ("scenario", "system", "median_s", "min_s", "max_s", "cpu_s", "target", "met", "runs", "warm_up_s", "unit")


@dataclass(frozen=True)
class Figure:
    """What was measured, in seconds unless `unit` says otherwise; `target` is at most, None where nothing is to be reached."""

    scenario: str
    runs: Sequence[Took]
    warm_up: Sequence[Took] = ()
    target: float | None = None
    system: str = OURS
    unit: str = "s"
    profile: Mapping[str, Any] = field(default_factory=dict)

    @property
    def median(self) -> float:
        """Of the runs that count."""
        return median(took.wall for took in self.runs)

    @property
    def met(self) -> bool | None:
        """Whether it is reached; None where nothing is to be."""
        return None if self.target is None else self.median <= self.target

    @property
    def is_missed(self) -> bool:
        """By more than 15 %."""
        return self.target is not None and self.median > self.target * _TOLERATED

    def __str__(self) -> str:
        """One line: what a run tells while it goes on."""
        reached = "" if self.target is None else f", to reach {self.target:.3g}"
        return f"{self.scenario}, {self.system}: {self.median:.3g} {self.unit}{reached}"

    def row(self) -> dict[str, Any]:
        """For `-o json`, by COLUMNS, and `profile` where there is one."""
        walls = [took.wall for took in self.runs]
        target = None if self.target is None else round(self.target, 3)
        figures = (self.median, min(walls), max(walls), median(took.cpu for took in self.runs))
        warm_up = [round(took.wall, 3) for took in self.warm_up]
        values = (self.scenario, self.system, *(round(x, 3) for x in figures), target, self.met, len(walls), warm_up, self.unit)
        return {**dict(zip(COLUMNS, values, strict=True)), **({"profile": dict(self.profile)} if self.profile else {})}
