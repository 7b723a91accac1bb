"""Batches that rewrite what a table holds, each beside the plain case of the same size: both of a pair stand side by side.

A history (SCD2) splits versions, an incomplete row takes what its event lacks from the row that is there, a TRUNCATE empties the
table before it is loaded again, a late event goes between versions that are there already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.bench.carry import Took
from benchmarks.bench.errors import BenchError
from benchmarks.bench.feed import Feed
from benchmarks.bench.figures import Figure
from benchmarks.bench.measurement import ROWS, Loaded, Measurement
from benchmarks.bench.totals import read_totals
from cdc_assets.registry import names

_CHANGES, _LARGE = 100_000, 5_000_000
_RUNS, _TARGET = 3, 2.0
_UNIT = "x of plain"
Side = tuple[Loaded, Callable[[], None]]
"""Tables, and what sends them their next batch."""


def rewrites(bench: Measurement) -> Iterator[Figure]:
    """A history, incomplete rows, a TRUNCATE with its reload, and a late event of a large history."""
    rows = bench.asked.rows(ROWS)
    changes = min(_CHANGES, rows)
    plain, others = _load(bench, bench.feed(rows)), bench.feed(rows)
    update = partial(plain.feeds[0].update, changes)
    yield from _beside(
        bench,
        f"SCD2: {changes:,} into {rows:,}",
        (_load(bench, others, history="scd2"), partial(others.update, changes)),
        (plain, update),
    )
    parts = _load(bench, bench.feed(rows))
    yield from _beside(
        bench,
        f"incomplete rows: {changes:,} into {rows:,}",
        (parts, partial(parts.feeds[0].update_in_part, changes)),
        (plain, update),
    )
    yield from _reload(bench, rows)
    yield from _late(bench, bench.asked.rows(_LARGE))


def _load(bench: Measurement, feed: Feed, **declared: object) -> Loaded:
    loaded = bench.make("_rewrites", [feed], peers=False, **declared)
    bench.carry(loaded.source)
    return loaded


def _beside(bench: Measurement, name: str, rewriting: Side, plain: Side) -> Iterator[Figure]:
    """Both by turns; the first pair does not count. The plain runs, the others, and their ratios."""
    took: tuple[list[Took], list[Took]] = ([], [])
    for number in range(bench.asked.repeats(_RUNS) + 1):
        bench.say(f"{name}: pair {number + 1}")
        for (loaded, send), runs in zip((plain, rewriting), took, strict=True):
            send()
            bronze, silver = bench.carry(loaded.source)
            runs.append(bronze + silver)
    for loaded, _ in (plain, rewriting):
        bench.check(loaded)
        _check_history(bench, loaded)
    yield from _figures(bench, name, ("plain", "plain"), took)


def _figures(bench: Measurement, name: str, plain: tuple[str, str], took: tuple[list[Took], list[Took]]) -> Iterator[Figure]:
    """The plain runs, the others, and their ratios; `plain` is what the first are called, alone and beside the others."""
    alone, beside = plain
    ratios = [Took(ours.wall / theirs.wall, ours.cpu) for theirs, ours in zip(*took, strict=True)]
    yield Figure(f"{name}: {alone}", took[0][1:], took[0][:1])
    yield Figure(name, took[1][1:], took[1][:1])
    yield Figure(f"{name}, beside {beside}", ratios[1:], ratios[:1], bench.asked.target(_TARGET), unit=_UNIT)


def _reload(bench: Measurement, rows: int) -> Iterator[Figure]:
    """Beside the first load of a table by the same number of inserts."""
    emptied = _load(bench, bench.feed(rows))
    fresh = bench.feed(rows)
    loads = [bench.make("_fresh", [fresh], peers=False) for _ in range(bench.asked.repeats(_RUNS) + 1)]
    took: tuple[list[Took], list[Took]] = ([], [])
    name = f"TRUNCATE and reload of {rows:,}"
    for number, load in enumerate(loads):
        bench.say(f"{name}: pair {number + 1}")
        emptied.feeds[0].truncate_and_load()
        for loaded, runs in zip((load, emptied), took, strict=True):
            bronze, silver = bench.carry(loaded.source)
            runs.append(bronze + silver)
            bench.check(loaded)
    yield from _figures(bench, name, ("first load", "a first load"), took)


def _late(bench: Measurement, rows: int) -> Iterator[Figure]:
    """One event from before its row's newest change, into a history; beside one change of the same history in its order."""
    feed = bench.feed(rows)
    loaded = _load(bench, feed, history="scd2")
    yield from _beside(
        bench,
        f"a late event into a history of {rows:,}",
        (loaded, partial(feed.update_late, 1)),
        (loaded, partial(feed.update, 1)),
    )


def _check_history(bench: Measurement, loaded: Loaded) -> None:
    """Current versions are the table's rows, and every event of a row has one version.

    Raises:
        BenchError: one is missing or was never sent.
    """
    (table,), (feed,) = loaded.source.tables, loaded.feeds
    if table.history != "scd2":
        return
    path = names.history_path(bench.platform.lake, loaded.source, table)
    if (current := read_totals(path, "_is_current")) != feed.expected:
        raise BenchError(f"{path}: current versions have rows and sum {current}, sent were {feed.expected}")
    if (versions := read_totals(path)[0]) != feed.versions:
        raise BenchError(f"{path} has {versions:,} versions, events of {feed.versions:,} versions were sent")
