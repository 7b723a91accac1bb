"""What a run has measured, kept by scenario as soon as it is there: a run of two hours that was ended goes on from its record."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.bench.carry import Took
from benchmarks.bench.errors import BenchError
from benchmarks.bench.figures import Figure


@dataclass
class BenchRecord:
    """A file of JSON lines, one for each scenario that was measured; without a file nothing is kept."""

    file: Path | None = None
    asked: str = ""
    """How much was to be measured: the figures of a trial are not those of a run."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """When, of which commit and on which machine: kept with each scenario."""

    def load(self) -> dict[str, dict[str, Any]]:
        """By scenario: its `facts` and its `figures`.

        Raises:
            BenchError: the file is none of these, or another run's.
        """
        if self.file is None or not self.file.exists():
            return {}
        found = {}
        for number, line in enumerate(self.file.read_text(encoding="utf-8").splitlines(), 1):
            try:
                kept = json.loads(line)
                found[kept["name"]] = {"facts": kept["facts"], "figures": [_figure(each) for each in kept["figures"]]}
                asked = kept["asked"]
            except (ValueError, KeyError, TypeError) as error:
                raise BenchError(f"{self.file}, line {number}: no scenario's figures: {error!r}; name another file") from error
            if asked != self.asked:
                raise BenchError(f"{self.file}, line {number}: measured as {asked}, not as {self.asked}: name another file")
        return found

    def keep(self, name: str, figures: Sequence[Figure]) -> None:
        """At the file's end."""
        if self.file is not None:
            line = json.dumps(
                {"name": name, "asked": self.asked, "facts": dict(self.facts), "figures": [asdict(each) for each in figures]}
            )
            with self.file.open("a", encoding="utf-8") as opened:
                opened.write(line + "\n")


def _figure(kept: Mapping[str, Any]) -> Figure:
    runs = {key: [Took(**took) for took in kept[key]] for key in ("runs", "warm_up")}
    return Figure(**{**kept, **runs})
