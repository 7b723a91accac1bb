"""What a run has measured, kept figure by figure: a run of two hours that was ended goes on from its record.

A scenario is held once its last line is there. Figures of one that was ended in its middle stay in the file and count for
nothing: the next run measures it anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.bench.carry import Took
from benchmarks.bench.errors import BenchError
from benchmarks.bench.figures import Figure


@dataclass
class BenchRecord:
    """A file of JSON lines, one for each figure and one for each scenario's end; without a file nothing is kept."""

    file: Path | None = None
    asked: str = ""
    """How much was to be measured: the figures of a trial are not those of a run."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """When, of which commit and on which machine: kept with each scenario."""

    def load(self) -> dict[str, dict[str, Any]]:
        """By scenario that was measured to its end: its `facts` and its `figures`.

        Raises:
            BenchError: the file is none of these, or another run's.
        """
        if self.file is None or not self.file.exists():
            return {}
        figures: dict[str, list[Figure]] = {}
        measured = {}
        for number, text in enumerate(self.file.read_text(encoding="utf-8").splitlines(), 1):
            try:
                line = json.loads(text)
                name, asked = line["name"], line["asked"]
                if line["figure"] is not None:
                    figures.setdefault(name, []).append(_figure(line["figure"]))
                else:
                    measured[name] = {"facts": line["facts"], "figures": figures.pop(name, [])}
            except (ValueError, KeyError, TypeError) as error:
                raise BenchError(f"{self.file}, line {number}: no figure of a scenario: {error!r}; name another file") from error
            if asked != self.asked:
                raise BenchError(f"{self.file}, line {number}: measured as {asked}, not as {self.asked}: name another file")
        return measured

    def begin(self, name: str) -> None:
        """Take the figures out that an earlier run of this scenario left in its middle."""
        if self.file is not None and self.file.exists():
            lines = self.file.read_text(encoding="utf-8").splitlines()
            kept = [line for line in lines if json.loads(line)["name"] != name]
            if kept != lines:
                self.file.write_text("".join(line + "\n" for line in kept), encoding="utf-8")

    def keep(self, name: str, figure: Figure) -> None:
        """At the file's end, as soon as it is measured."""
        self._write(name, asdict(figure))

    def end(self, name: str) -> None:
        """The scenario has no more figures."""
        self._write(name, None)

    def _write(self, name: str, figure: Mapping[str, Any] | None) -> None:
        if self.file is not None:
            line = {"name": name, "asked": self.asked, "facts": dict(self.facts), "figure": figure}
            with self.file.open("a", encoding="utf-8") as opened:
                opened.write(json.dumps(line) + "\n")


def _figure(kept: Mapping[str, Any]) -> Figure:
    runs = {key: [Took(**took) for took in kept[key]] for key in ("runs", "warm_up")}
    return Figure(**{**kept, **runs})
