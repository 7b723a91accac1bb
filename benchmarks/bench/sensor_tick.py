"""One look of the offsets sensor at 500 topics of which none has news."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from benchmarks.bench.carry import measure
from benchmarks.bench.errors import BenchError
from benchmarks.bench.figures import Figure
from benchmarks.bench.measurement import ROWS_OF_SMALL, Measurement
from benchmarks.bench.stack_dagster import open_instance
from cdc_assets.registry.source_declaration import TopicSource
from spark.errors import quantity

if TYPE_CHECKING:
    import dagster as dg

_TOPICS = 500
_RUNS = 5
_TARGET = 1.0


def tick(bench: Measurement) -> Iterator[Figure]:
    """By the sensor that Dagster evaluates, with the stack's own Dagster instance, in this process; the first does not count."""
    source = bench.tables(_TOPICS, ROWS_OF_SMALL).source
    with open_instance(bench.stack.home) as instance:
        runs, look = bench.asked.repeats(_RUNS) + 1, sensor_look(bench, source, instance)
        bench.say(f"tick: {quantity(_TOPICS, 'topic')}, {quantity(runs, 'look')}")
        took = [measure(look, lambda: sum(os.times()[:2])) for _ in range(runs)]
    yield Figure(f"tick of {quantity(_TOPICS, 'topic')}", took[1:], took[:1], target=bench.asked.target(_TARGET))


def sensor_look(bench: Measurement, source: TopicSource, instance: dg.DagsterInstance) -> Callable[[], None]:
    """One look of the source's offsets sensor, which finds no news.

    Raises:
        BenchError: it finds some.
    """
    import dagster as dg

    from cdc_assets.defs.offsets_sensor import build_offsets_sensor

    sensor = build_offsets_sensor(source)

    def look() -> None:
        with dg.build_sensor_context(instance=instance, resources={"platform": bench.platform}) as context:
            found = sensor(context)
        requests = getattr(found, "run_requests", None)
        if not isinstance(found, dg.SensorResult) or requests:
            raise BenchError(f"the sensor of {source.name} found what is not there: {found}")
        # As Dagster's daemon keeps them: else each look would tell again that each table holds all there is.
        for event in found.asset_events:
            instance.report_runless_asset_event(event)

    return look
