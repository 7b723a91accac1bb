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

    `earlier`: facts of the scenarios whose figures are those of the record. `under_way`: the scenario that is being measured; a
    run that was ended keeps its name there. `tell` has each figure as it is measured.
    """

    figures: list[Figure] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    earlier: dict[str, Mapping[str, str]] = field(default_factory=dict)
    under_way: str = ""
    tell: Callable[[Figure], None] = field(default=lambda _: None)

    def add(self, figure: Figure) -> None:
        """One more."""
        self.figures.append(figure)
        self.tell(figure)


def run_scenarios(wanted: Wanted, run: WholeRun, say: Callable[[str], None]) -> None:
    """All of them, into `run`; one that fails does not keep the others from being measured.

    Raises:
        BenchError: there is no stack to measure on, or no such scenario.
    """
    chosen = choose_scenarios(wanted.scenarios, long=wanted.size.long, peers=wanted.peers)
    if set(chosen) <= set(wanted.record.load()):
        return run_each({name: SCENARIOS[name] for name in chosen}, None, run, wanted.record)
    with ExitStack() as ending:
        stack = running_stack() if wanted.here else ending.enter_context(scratch_stack(say))
        folder = Path(tempfile.mkdtemp(prefix="bench-", dir=stack.home.root))
        bench = Measurement(stack, wanted.size, folder, say)
        ending.callback(bench.close)
        if wanted.peers:
            bench.peers = ending.enter_context(start_peers(stack, folder, say, long=wanted.size.long))
        return run_each({name: SCENARIOS[name] for name in chosen}, bench, run, wanted.record)


def run_each(chosen: Mapping[str, Scenario], bench: Measurement | None, run: WholeRun, record: BenchRecord | None = None) -> None:
    """The figures of all that could be measured, or that the record holds, into `run`, each as soon as it is there."""
    record = record or BenchRecord()
    held = record.load()
    for name, scenario in chosen.items():
        if name in held:
            run.earlier[name] = held[name]["facts"]
            for figure in held[name]["figures"]:
                run.add(figure)
            continue
        assert bench is not None
        run.under_way = name
        record.begin(name)
        try:
            for figure in scenario.run(bench):
                run.add(figure)
                record.keep(name, figure)
        except ON_PURPOSE as error:
            bench.say(f"{name} was not measured: {error}")
            run.failures[name] = str(error)
        else:
            record.end(name)
    run.under_way = ""
