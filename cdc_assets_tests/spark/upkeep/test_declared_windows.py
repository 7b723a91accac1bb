"""What a declaration of windows must be, without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from spark.errors import JobRefusedError
from spark.upkeep.declared_windows import Measure, WindowedSpec

GOOD: dict[str, Any] = {
    **{"source": "s", "table": "t", "name": "w", "silver_path": "/s", "path": "/w", "panes_path": "/p"},
    **{"event_time": "at", "size": 3600, "every": 900, "by": ("city",), "measures": (Measure("n", "count"),)},
}


def test_it_travels_as_json() -> None:
    spec = WindowedSpec(**GOOD)
    assert WindowedSpec.from_json(spec.to_json()) == spec
    assert (spec.keys, spec.read) == (("city", "window_start"), ("city", "at"))
    assert WindowedSpec(**{**GOOD, "silver_limit": 7}).digest == spec.digest
    assert WindowedSpec(**{**GOOD, "delay": 7}).digest != spec.digest
    with pytest.raises(JobRefusedError, match="WindowedSpec"):
        WindowedSpec.from_json("{}")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"every": 1000}, "does not begin every 1000 s a whole number of times"),
        ({"size": 0}, "a window of 0 s"),
        ({"delay": -1}, "are not negative"),
        ({"measures": ()}, "there are measures"),
        ({"measures": (Measure("City", "count"),)}, "each column has a name of its own; got city, City"),
        ({"measures": (Measure("is_final", "count"),)}, "the name is_final is a window's own"),
    ],
)
def test_what_makes_no_sense_is_refused(more: dict[str, Any], told: str) -> None:
    with pytest.raises(JobRefusedError, match=told):
        WindowedSpec(**{**GOOD, **more})


def test_a_measure_has_a_function_and_a_column() -> None:
    with pytest.raises(JobRefusedError, match="'median' is none of count, sum, min, max, distinct"):
        Measure("m", "median", "x")
    with pytest.raises(JobRefusedError, match="sum needs a column"):
        Measure("m", "sum")
