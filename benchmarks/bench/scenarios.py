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
from benchmarks.bench.rewrites import rewrites
from benchmarks.bench.sensor_tick import tick
from benchmarks.bench.sustained import steady_load
from benchmarks.bench.typed_tables import tables_of_all_types
from benchmarks.bench.verbs import verbs
from benchmarks.bench.wait_cost import wait_cost
from benchmarks.bench.year import year

_LARGE = 5_000_000


@dataclass(frozen=True)
class Scenario:
    """One that may be asked for by name; a `default` one needs no `--long`; `peers`: they do it as well."""

    run: Run
    default: bool = False
    peers: bool = False


SCENARIOS: Mapping[str, Scenario] = {
    "rest": Scenario(rest, default=True),
    "cli": Scenario(verbs, default=True),
    "wait": Scenario(wait_cost, default=True),
    "latency": Scenario(latency, default=True),
    "latency-busy": Scenario(busy_latency),
    "latency-continuous": Scenario(continuous_latency, default=True),
    "first-load": Scenario(first_load, default=True, peers=True),
    "cycle-1k": Scenario(cycle(1_000, 0.8), default=True, peers=True),
    "cycle-10k": Scenario(cycle(10_000, 1.0), peers=True),
    "cycle-100k": Scenario(cycle(100_000, 3.0), peers=True),
    "tables-20": Scenario(many(20, 1.5), default=True, peers=True),
    "tables-100": Scenario(many(100, 6.0), peers=True),
    "tables-500": Scenario(many(500, 25.0, changes=100)),
    "tick": Scenario(tick),
    "backup": Scenario(backup),
    "cycle-1k-5m": Scenario(cycle(1_000, 2.0, _LARGE), peers=True),
    "cycle-100k-5m": Scenario(cycle(100_000, 5.0, _LARGE), peers=True),
    "cycle-50m": Scenario(larger_table),
    "sustained": Scenario(steady_load, peers=True),
    "rewrites": Scenario(rewrites),
    "growth": Scenario(growth),
    "reconcile": Scenario(reconcile),
    "year": Scenario(year),
    "typed-tables": Scenario(tables_of_all_types),
    "rest-500": Scenario(idle_tables),
}
"""In the order in which they run: at rest first, before anything has been asked for; what the registry keeps, last."""


def choose_scenarios(names: Sequence[str], *, long: bool, peers: bool = False) -> list[str]:
    """Those named; without names the default ones, with `long` all. Without `long` peers leave those out that they do not do.

    Raises:
        BenchError: one of the names is no scenario's.
    """
    if unknown := [name for name in names if name not in SCENARIOS]:
        raise BenchError(f"no scenario is called {', '.join(unknown)}; there are {', '.join(SCENARIOS)}")
    if names:
        return [name for name in SCENARIOS if name in names]
    return [name for name, each in SCENARIOS.items() if long or (each.default and (each.peers or not peers))]
