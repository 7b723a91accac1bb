"""What `cdc bench` measures, and the figure that each is to reach on two quiet cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cdc_assets.bench import idle_cost
from cdc_assets.bench.carry import check_rows, make_source, measure
from cdc_assets.bench.feed import Feed
from cdc_assets.bench.figures import LIMIT, Figure
from cdc_assets.bench.measurement import Measurement
from cdc_assets.errors import BenchError
from cdc_assets.quantity import quantity
from spark.specs import BronzeSpec, TopicRange

_ROWS_OF_SMALL = 1_000
_CHANGES_OF_SMALL = 500
_REST_SECONDS, _REST_WINDOWS = 20.0, 4
_BRONZE_TO_NOOP = 2.0
"""Bronze reads at half the rate of Spark's own read of the topic, or faster."""


def rest(bench: Measurement) -> Iterator[Figure]:
    """The whole stack while nobody changes anything; the first window does not count."""
    cores, memory = idle_cost.watch(bench.stack.supervisor, seconds=_REST_SECONDS, windows=_REST_WINDOWS, say=bench.say)
    yield Figure("at rest: cores", cores[1:], cores[:1], target=0.15, unit="cores")
    yield Figure("at rest: memory", memory[1:], memory[:1], target=3.0, unit="GB")


def first_load(bench: Measurement) -> Iterator[Figure]:
    """All rows into tables that are not there yet, beside Spark's own read of the topic; the first run does not count."""
    rows, runs = bench.asked.rows, bench.asked.repeats(3) + 1
    bench.say(f"first load: {quantity(rows, 'event', form=',')} are sent")
    feed = bench.feed(rows)
    noop, bronze, both = [], [], []
    for number in range(runs):
        bench.say(f"first load: run {number + 1} of {runs}")
        source = make_source(bench.name if number == runs - 1 else f"{bench.name}_{number}", [feed])
        noop.append(measure(lambda: read_to_nowhere(bench, feed), bench.stack.cpu))
        first, second = bench.carry(source)
        bronze.append(first)
        both.append(first + second)
    check_rows(bench.platform, source, [feed])
    bench.loaded = source, feed
    limit = Figure(f"read {rows:,}", noop[1:], noop[:1], system=LIMIT)
    target = bench.asked.target(limit.median * _BRONZE_TO_NOOP)
    yield limit
    yield Figure(f"first load {rows:,}: bronze", bronze[1:], bronze[:1], target=target)
    yield Figure(f"first load {rows:,}: bronze, silver", both[1:], both[:1], profile=bench.profile)


def read_to_nowhere(bench: Measurement, feed: Feed) -> None:
    """Spark's own read of all the topic's records, thrown away."""
    from spark.kafka import offset_ranges

    kafka = bench.platform.lake_kafka()
    state = kafka.states([feed.topic])[feed.topic]
    topic = TopicRange("accounts", feed.topic, state.topic_id, 0, dict(state.ranges))
    spec = BronzeSpec("", kafka.bootstrap, (topic,), "", login=kafka.login)
    with bench.platform.spark().session() as session:
        offset_ranges.read(session, spec, spec.topics).write.format("noop").mode("overwrite").save()


def cycle(changes: int, target: float) -> Callable[[Measurement], Iterator[Figure]]:
    """So many changes into the large table; the first two runs do not count: Java compiles meanwhile."""

    def run(bench: Measurement) -> Iterator[Figure]:
        source, feed = bench.large_table()
        number = min(changes, feed.rows)
        found = bench.cycles(f"{number:,} into {feed.rows:,}", source, [feed], changes=number, warm_up=2, repeats=5)
        yield replace(found, target=bench.asked.target(target))

    return run


def many(tables: int, target: float) -> Callable[[Measurement], Iterator[Figure]]:
    """500 changes into each of so many small tables; the first run does not count."""

    def run(bench: Measurement) -> Iterator[Figure]:
        bench.say(f"{quantity(tables, 'table')} are made")
        feeds = [bench.feed(_ROWS_OF_SMALL) for _ in range(tables)]
        source = make_source(f"{bench.name}_of_{tables}", feeds)
        bench.carry(source)
        name = f"{quantity(tables, 'table')} x {_CHANGES_OF_SMALL}"
        found = bench.cycles(name, source, feeds, changes=_CHANGES_OF_SMALL, warm_up=1, repeats=3)
        yield replace(found, target=bench.asked.target(target))

    return run


@dataclass(frozen=True)
class Scenario:
    """One that may be asked for by name; a `quick` one takes part in `--quick`."""

    run: Callable[[Measurement], Iterator[Figure]]
    quick: bool = False


SCENARIOS: Mapping[str, Scenario] = {
    "rest": Scenario(rest, quick=True),
    "first-load": Scenario(first_load, quick=True),
    "cycle-1k": Scenario(cycle(1_000, 0.8), quick=True),
    "cycle-10k": Scenario(cycle(10_000, 1.0)),
    "cycle-100k": Scenario(cycle(100_000, 3.0)),
    "tables-20": Scenario(many(20, 1.5), quick=True),
    "tables-100": Scenario(many(100, 6.0)),
}
"""In the order in which they run: at rest first, before anything has been asked for."""


def choose_scenarios(names: Sequence[str], *, quick: bool) -> list[Scenario]:
    """Those named; without names all, or all quick ones.

    Raises:
        BenchError: one of the names is no scenario's.
    """
    if unknown := [name for name in names if name not in SCENARIOS]:
        raise BenchError(f"no scenario is called {', '.join(unknown)}; there are {', '.join(SCENARIOS)}")
    return [each for name, each in SCENARIOS.items() if (name in names if names else each.quick or not quick)]
