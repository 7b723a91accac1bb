"""Scenarios of the topics' way into tables: first loads, cycles into a large table, many small tables. Peers take part."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bench.carry import measure
from benchmarks.bench.errors import BenchError
from benchmarks.bench.feed import Feed
from benchmarks.bench.figures import LIMIT, Figure
from benchmarks.bench.matched_runs import Contest
from benchmarks.bench.measurement import ROWS, ROWS_OF_SMALL, Cycles, Measurement, Run
from spark.errors import quantity
from spark.specs import BronzeSpec, TopicRange

_BRONZE_TO_NOOP = 2.0
"""Bronze reads at half the rate of Spark's own read of the topic, or faster."""


def first_load(bench: Measurement) -> Iterator[Figure]:
    """All rows into tables that are not there yet, beside Spark's own read of the topic; the first run does not count."""
    rows, runs = bench.asked.rows(ROWS), bench.asked.repeats(3 if bench.asked.long else 2) + 1
    bench.say(f"first load: {quantity(rows, 'event', form=',')} are sent")
    feed = bench.feed(rows)
    loads = [bench.make(f"_load_{number}", [feed]) for number in range(runs)]
    contest = Contest(f"first load {rows:,}: bronze, silver", 1, loads[0].peers)
    noop, bronze = [], []
    for number, loaded in enumerate(loads):
        bench.say(f"first load: run {number + 1} of {runs}")
        noop.append(measure(lambda: read_to_nowhere(bench, feed), bench.stack.cpu))
        first, _ = bench.compete(contest, loaded)
        bronze.append(first)
    bench.check(loads[-1])
    bench.loaded[1, rows] = loads[-1]
    limit = Figure(f"read {rows:,}", noop[1:], noop[:1], system=LIMIT)
    target = bench.asked.target(limit.median * _BRONZE_TO_NOOP)
    yield limit
    yield Figure(f"first load {rows:,}: bronze", bronze[1:], bronze[:1], target=target)
    yield contest.ours(None, bench.profile)
    yield from contest.beside(is_trial=bench.asked.is_trial)


def read_to_nowhere(bench: Measurement, feed: Feed) -> None:
    """Spark's own read of all the topic's records, thrown away."""
    from spark.events import kafka_source

    kafka = bench.platform.lake_kafka()
    state = kafka.states([feed.topic]).get(feed.topic)
    if state is None:
        raise BenchError(f"topic {feed.topic} is not there any more at {kafka.bootstrap}")
    topic = TopicRange("accounts", feed.topic, state.topic_id, 0, dict(state.ranges))
    spec = BronzeSpec("", kafka.bootstrap, (topic,), "", login=kafka.login)
    with bench.platform.spark().session() as session:
        kafka_source.read(session, spec, spec.topics).write.format("noop").mode("overwrite").save()


def cycle(changes: int, target: float, rows: int = ROWS) -> Run:
    """So many changes into the large table; the first two runs do not count: Java compiles meanwhile."""

    def run(bench: Measurement) -> Iterator[Figure]:
        loaded = bench.tables(1, bench.asked.rows(rows))
        held = loaded.feeds[0].rows
        number = min(changes, held)
        contest = bench.cycles(Cycles(f"{number:,} into {held:,}", number, warm_up=2, repeats=5), loaded)
        yield contest.ours(bench.asked.target(target), bench.profile)
        yield from contest.beside(is_trial=bench.asked.is_trial)

    return run


def many(tables: int, target: float, changes: int = 500) -> Run:
    """So many changes into each of so many small tables; the first run does not count."""

    def run(bench: Measurement) -> Iterator[Figure]:
        loaded = bench.tables(tables, ROWS_OF_SMALL)
        name = f"{quantity(tables, 'table')} x {changes}"
        contest = bench.cycles(Cycles(name, changes, warm_up=1, repeats=3), loaded)
        yield contest.ours(bench.asked.target(target), bench.profile)
        yield from contest.beside(is_trial=bench.asked.is_trial)

    return run
