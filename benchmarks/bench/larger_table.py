"""What ten times the rows cost: the same changes into fifty million rows and into five."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.bench.carry import Took
from benchmarks.bench.figures import Figure
from benchmarks.bench.measurement import Cycles, Measurement

_SMALLER, _LARGER = 5_000_000, 50_000_000
_TRIAL_FACTOR = 2
_CHANGES = (1_000, 100_000)
_TARGET = 3.0


def larger_table(bench: Measurement) -> Iterator[Figure]:
    """Without peers, which would need an hour for the larger one's first load."""
    smaller = bench.asked.rows(_SMALLER)
    larger = smaller * _TRIAL_FACTOR if bench.asked.is_trial else _LARGER
    medians = {}
    for rows in (smaller, larger):
        loaded = replace(bench.tables(1, rows, peers=False), peers=())
        for changes in _CHANGES:
            number = min(changes, rows)
            contest = bench.cycles(Cycles(f"{number:,} into {rows:,}", number, warm_up=2, repeats=5), loaded)
            figure = contest.ours(None, bench.profile)
            medians[changes, rows] = figure.median
            if rows == larger:
                yield figure
                by = [Took(took.wall / medians[changes, smaller], took.cpu) for took in figure.runs]
                name = f"{figure.scenario}, beside {smaller:,}"
                yield Figure(name, by, (), bench.asked.target(_TARGET), unit=f"x of {smaller:,}")
