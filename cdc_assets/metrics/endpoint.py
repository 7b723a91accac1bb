"""The figures at http://127.0.0.1:PORT/metrics, in Prometheus's text form; collected when asked for, and kept for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from cdc_assets.metrics.figures import MetricSample
from cdc_assets.resources.metric_names import HELP


class FigureCache:
    """What `collect` found, for so many seconds: scrapes that come sooner, or at the same time, cost nothing."""

    def __init__(self, collect: Callable[[], Sequence[MetricSample]], *, seconds: float) -> None:
        self._collect, self._seconds = collect, seconds
        self._found: Sequence[MetricSample] = ()
        self._at: float | None = None
        self._collecting = threading.Lock()

    def figures(self) -> Sequence[MetricSample]:
        """The newest that are not older."""
        with self._collecting:
            if self._at is None or time.monotonic() - self._at >= self._seconds:
                self._found = self._collect()
                self._at = time.monotonic()
            return self._found


class Families:
    """The figures as prometheus_client's registry asks for them."""

    def __init__(self, cache: FigureCache) -> None:
        self._cache = cache

    def describe(self) -> list[Any]:
        """Nothing: or registering would collect."""
        return []

    def collect(self) -> Iterator[Any]:
        """One family for each metric that has samples."""
        from prometheus_client.core import GaugeMetricFamily

        figures = self._cache.figures()
        for name, (text, labels) in HELP.items():
            family = GaugeMetricFamily(name, text, labels=labels)
            for figure in figures:
                if figure.name == name:
                    family.add_metric(figure.labels, figure.value)
            if family.samples:
                yield family


def exposition(cache: FigureCache) -> str:
    """The text that a scrape gets."""
    from prometheus_client.exposition import generate_latest

    return generate_latest(_registry(cache)).decode()


def serve(cache: FigureCache, port: int) -> tuple[Any, threading.Thread]:
    """Begin to serve on the loopback: the server, and its thread. Port 0: one that is free.

    Raises:
        OSError: the port is taken.
    """
    from prometheus_client import start_http_server

    return start_http_server(port, addr="127.0.0.1", registry=_registry(cache))


def _registry(cache: FigureCache) -> Any:
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry()
    registry.register(Families(cache))
    return registry
