"""One call of `cdc bench`: its stack, its peers, and the chosen scenarios one after the other."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.bench.figures import Figure
from benchmarks.bench.measurement import Measurement, Size
from benchmarks.bench.peers.all_peers import start_peers
from benchmarks.bench.record import BenchRecord
from benchmarks.bench.scenarios import SCENARIOS, Scenario, choose_scenarios
from benchmarks.bench.stack import running_stack, scratch_stack
from cdc_assets.registry.errors import ON_PURPOSE


@dataclass(frozen=True)
class Wanted:
    """What is asked for; `here`: on the stack that runs."""

    scenarios: Sequence[str] = ()
    here: bool = False
    peers: bool = False
    size: Size = field(default_factory=Size)
    record: BenchRecord = field(default_factory=BenchRecord)


@dataclass
class WholeRun:
    """What was measured, and the reasons why scenarios were not, by their names.

    `earlier`: facts of the scenarios whose figures are those of the record.
    """

    figures: list[Figure] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    earlier: dict[str, Mapping[str, str]] = field(default_factory=dict)


def run_scenarios(wanted: Wanted, say: Callable[[str], None]) -> WholeRun:
    """All of them; one that fails does not keep the others from being measured.

    Raises:
        BenchError: there is no stack to measure on, or no such scenario.
    """
    chosen = choose_scenarios(wanted.scenarios, quick=wanted.size.quick, peers=wanted.peers)
    if set(chosen) <= set(wanted.record.load()):
        return run_each({name: SCENARIOS[name] for name in chosen}, None, wanted.record)
    with ExitStack() as ending:
        stack = running_stack() if wanted.here else ending.enter_context(scratch_stack(say))
        folder = Path(tempfile.mkdtemp(prefix="bench-", dir=stack.home.root))
        bench = Measurement(stack, wanted.size, folder, say)
        ending.callback(bench.close)
        if wanted.peers:
            bench.peers = ending.enter_context(start_peers(stack, folder, say, quick=wanted.size.quick))
        return run_each({name: SCENARIOS[name] for name in chosen}, bench, wanted.record)


def run_each(chosen: Mapping[str, Scenario], bench: Measurement | None, record: BenchRecord | None = None) -> WholeRun:
    """The figures of all that could be measured, or that the record holds."""
    record = record or BenchRecord()
    found, held = WholeRun(), record.load()
    for name, scenario in chosen.items():
        if name in held:
            found.figures += held[name]["figures"]
            found.earlier[name] = held[name]["facts"]
            continue
        assert bench is not None
        before = len(found.figures)
        try:
            found.figures += scenario.run(bench)
        except ON_PURPOSE as error:
            bench.say(f"{name} was not measured: {error}")
            found.failures[name] = str(error)
        else:
            record.keep(name, found.figures[before:])
    return found
