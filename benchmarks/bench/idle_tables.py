"""What the whole stack takes at rest while it looks after five hundred more tables."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from benchmarks.bench.at_rest import at_rest
from benchmarks.bench.carry import append_and_fold
from benchmarks.bench.errors import BenchError
from benchmarks.bench.example_sources import run_cdc
from benchmarks.bench.figures import Figure
from benchmarks.bench.measurement import Measurement
from cdc_assets.registry import settings
from spark.errors import quantity

_TABLES, _ROWS = 500, 100
_TARGET = 0.3


def idle_tables(bench: Measurement) -> Iterator[Figure]:
    """They are in the lake and in the registry, with a sensor; the first window does not count.

    Raises:
        BenchError: the stack is not the bench's own, whose registry would keep them.
    """
    if not bench.stack.own:
        raise BenchError(f"rest-500 adds {_TABLES} tables to the stack's registry: measure it without --here")
    number = 5 if bench.asked.is_trial else _TABLES
    name = quantity(number, "idle table")
    bench.say(f"{name} are loaded")
    source = bench.make("_idle", [bench.feed(_ROWS) for _ in range(number)], peers=False).source
    append_and_fold(bench.platform_of_stack, source)
    declared = yaml.safe_dump(source.model_dump(mode="json", exclude_unset=True), sort_keys=False)
    (settings.sources_folder() / f"{source.name}.yaml").write_text(declared, encoding="utf-8")
    run_cdc("reload")
    yield from at_rest(bench, f"at rest with {name}", cores=_TARGET)
