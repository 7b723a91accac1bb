"""What `cdc bench` measures, and the figure that each is to reach on two quiet cores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.bench.at_rest import rest
from benchmarks.bench.backup_rate import backup
from benchmarks.bench.carrying import cycle, first_load, many
from benchmarks.bench.errors import BenchError
from benchmarks.bench.growth import growth
from benchmarks.bench.idle_tables import idle_tables
from benchmarks.bench.larger_table import larger_table
from benchmarks.bench.latency import busy_latency, continuous_latency, latency
from benchmarks.bench.measurement import Run
from benchmarks.bench.reconcile_cost import reconcile
from benchmarks.bench.sensor_tick import tick
from benchmarks.bench.sustained import steady_load
from benchmarks.bench.typed_tables import tables_of_all_types
from benchmarks.bench.verbs import verbs
from benchmarks.bench.wait_cost import wait_cost
from benchmarks.bench.year import year

_LARGE = 5_000_000


@dataclass(frozen=True)
class Scenario:
    """One that may be asked for by name; a `quick` one takes part in `--quick`; `peers`: they do it as well."""

    run: Run
    quick: bool = False
    peers: bool = False


SCENARIOS: Mapping[str, Scenario] = {
    "rest": Scenario(rest, quick=True),
    "cli": Scenario(verbs, quick=True),
    "wait": Scenario(wait_cost, quick=True),
    "latency": Scenario(latency, quick=True),
    "latency-busy": Scenario(busy_latency),
    "latency-continuous": Scenario(continuous_latency, quick=True),
    "first-load": Scenario(first_load, quick=True, peers=True),
    "cycle-1k": Scenario(cycle(1_000, 0.8), quick=True, peers=True),
    "cycle-10k": Scenario(cycle(10_000, 1.0), peers=True),
    "cycle-100k": Scenario(cycle(100_000, 3.0), peers=True),
    "tables-20": Scenario(many(20, 1.5), quick=True, peers=True),
    "tables-100": Scenario(many(100, 6.0), peers=True),
    "tables-500": Scenario(many(500, 25.0, changes=100)),
    "tick": Scenario(tick),
    "backup": Scenario(backup),
    "cycle-1k-5m": Scenario(cycle(1_000, 2.0, _LARGE), peers=True),
    "cycle-100k-5m": Scenario(cycle(100_000, 5.0, _LARGE), peers=True),
    "cycle-50m": Scenario(larger_table),
    "sustained": Scenario(steady_load, peers=True),
    "growth": Scenario(growth),
    "reconcile": Scenario(reconcile),
    "year": Scenario(year),
    "typed-tables": Scenario(tables_of_all_types),
    "rest-500": Scenario(idle_tables),
}
"""In the order in which they run: at rest first, before anything has been asked for; what the registry keeps, last."""


def choose_scenarios(names: Sequence[str], *, quick: bool, peers: bool = False) -> list[str]:
    """Those named; without names all, or all quick ones. Quick with peers: of these only the ones that peers do as well.

    Raises:
        BenchError: one of the names is no scenario's.
    """
    if unknown := [name for name in names if name not in SCENARIOS]:
        raise BenchError(f"no scenario is called {', '.join(unknown)}; there are {', '.join(SCENARIOS)}")
    if names:
        return [name for name in SCENARIOS if name in names]
    return [name for name, each in SCENARIOS.items() if not quick or (each.quick and (each.peers or not peers))]
