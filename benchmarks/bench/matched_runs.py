"""The runs of one scenario by all who take part: this product first, and its peers after it, each time on the same events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.bench.carry import Took
from benchmarks.bench.figures import OURS, Figure
from benchmarks.bench.peers.peer import Peer
from benchmarks.bench.peers.spark_peers import IcebergMerge

RATIO = "x of Iceberg"
_NO_SLOWER = 1.0


@dataclass
class Contest:
    """`warm_up` of each system's runs do not count."""

    scenario: str
    warm_up: int
    peers: Sequence[Peer] = ()
    runs: dict[str, list[Took]] = field(default_factory=dict)

    def add(self, system: str, took: Took) -> None:
        """One more run of that system."""
        self.runs.setdefault(system, []).append(took)

    def ours(self, target: float | None, profile: Mapping[str, Any] | None = None) -> Figure:
        """This product's own figure."""
        return self._figure(OURS, target, profile or {})

    def beside(self, is_trial: bool) -> Iterator[Figure]:
        """The peers' figures, and ours by Iceberg's, run by run: what stands beside it is hit by the same noise."""
        for peer in self.peers:
            yield self._figure(peer.name, None, {})
        if IcebergMerge.name in self.runs:
            pairs = list(zip(self.runs[OURS], self.runs[IcebergMerge.name], strict=True))
            ratios = [Took(ours.wall / theirs.wall, ours.cpu) for ours, theirs in pairs]
            target = None if is_trial else _NO_SLOWER
            name = f"{self.scenario}, beside Iceberg"
            yield Figure(name, ratios[self.warm_up :], ratios[: self.warm_up], target, unit=RATIO)

    def _figure(self, system: str, target: float | None, profile: Mapping[str, Any]) -> Figure:
        runs = self.runs[system]
        return Figure(self.scenario, runs[self.warm_up :], runs[: self.warm_up], target, system=system, profile=profile)
