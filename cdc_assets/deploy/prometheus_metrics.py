"""The figures of every chain for Prometheus, and the endpoint on 127.0.0.1 that serves them.

Figures come from logs, offsets and Dagster's answers, are collected when somebody asks, and are kept for a while. A part
that cannot be asked is told as that, and the others are there.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from cdc_assets.chain.quarantine import quarantine_records
from cdc_assets.clients.dagster_answers import DagsterAnswers
from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets.clients.platform import Platform
from cdc_assets.deploy import metric_names as names
from cdc_assets.deploy.metric_names import HELP
from cdc_assets.proof.chain_status import TableChain, chain_status
from cdc_assets.proof.chain_verdicts import check_verdicts
from cdc_assets.proof.event_ledger import SourceLedger
from cdc_assets.registry import names as cdc_names
from cdc_assets.registry import settings
from cdc_assets.registry.errors import CdcAssetsError
from cdc_assets.registry.loader import load_sources
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.stack.loopback import foreign
from spark.proof.ledger_contract import FATES
from spark.table.lake_location import is_object

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

_WORK = """{ assetNodes { assetKey { path } assetMaterializations(limit: 1) { timestamp metadataEntries { label
  ... on FloatMetadataEntry { floatValue } ... on IntMetadataEntry { intRepr } } } } }"""
_SINCE = timedelta(hours=24)


@dataclass(frozen=True)
class MetricSample:
    """A value of the metric `name`, with the values of its labels in the order of `metric_names.HELP`."""

    name: str
    labels: tuple[str, ...]
    value: float


@dataclass(frozen=True)
class NewestWork:
    """The newest materialization of an asset: when (seconds since 1970; None: there was none), and the numbers it told.

    `labels` are layer, source and table.
    """

    labels: tuple[str, str, str]
    at: float | None
    figures: Mapping[str, float]

    @classmethod
    def of(cls, path: Sequence[str], done: Sequence[Mapping[str, Any]]) -> NewestWork:
        """Of Dagster's answer for an asset's key."""
        entries = done[0]["metadataEntries"] if done else ()
        # `intValue` is none of a number beyond 32 bits.
        numbers = {entry["label"]: entry.get("floatValue", entry.get("intRepr")) for entry in entries}
        figures = {label: float(number) for label, number in numbers.items() if number is not None}
        return cls(_labels_of(path), float(done[0]["timestamp"]) / 1000 if done else None, figures)


def collect(platform: Platform) -> list[MetricSample]:
    """Every figure of this moment."""
    started, samples = time.monotonic(), list[MetricSample]()
    chains = cache(lambda: chain_status(platform))
    works = cache(lambda: _newest_works(DagsterAnswers()))
    parts: dict[str, Callable[[], Iterator[MetricSample]]] = {
        "chains": lambda: _of_chains(chains()),
        "lake": lambda: _of_lake(platform.lake, load_sources(settings.sources_folder())),
        "checks": lambda: _of_checks(DagsterAnswers()),
        "work": lambda: _of_works(works()),
        "backups": lambda: _of_backups(chains(), works()),
        "lake_kafka": lambda: _of_cluster("lake", platform.lake_kafka()),
        "disk": lambda: _of_disks(platform.lake),
    }
    for core in settings.core_clusters("BOOTSTRAP"):
        parts[f"{core}_kafka"] = partial(lambda name: _of_cluster(name, platform.core_kafka(name)), core)
    for component, ask in parts.items():
        try:
            samples += list(ask())
            is_up = 1
        except (CdcAssetsError, OSError):
            is_up = 0
        samples.append(MetricSample(names.PART_UP, (component,), is_up))
    return [*samples, MetricSample(names.COLLECT_SECONDS, (), round(time.monotonic() - started, 3))]


def _of_chains(chains: Sequence[TableChain]) -> Iterator[MetricSample]:
    for chain in chains:
        labels = (chain.source, chain.table)
        yield MetricSample(names.TABLE_ERROR, labels, int(chain.error is not None))
        yield MetricSample(names.BRONZE, labels, chain.bronze_records)
        for link in ("mirror", "bronze", "silver", "history"):
            if (lag := getattr(chain, f"{link}_lag")) is not None:
                yield MetricSample(names.LAG, (*labels, link), lag)
        for layer, rows in (("silver", chain.silver_rows), ("history", chain.history_versions)):
            if rows is not None:
                yield MetricSample(names.ROWS, (*labels, layer), rows)


def _of_lake(lake: str, sources: Sequence[BaseSource]) -> Iterator[MetricSample]:
    since = datetime.now(timezone.utc) - _SINCE
    for source in sources:
        ledger = SourceLedger(lake, source)
        for table in source.tables:
            labels = (source.name, cdc_names.table_name(table))
            yield MetricSample(names.QUARANTINE, labels, len(quarantine_records(lake, source, table)))
            windows = ledger.windows(table, window="1h", since=since)
            for fate in FATES if windows else ():
                yield MetricSample(names.EVENTS, (*labels, fate), sum(window.counts[fate] or 0 for window in windows))


def _of_checks(dagster: DagsterAnswers) -> Iterator[MetricSample]:
    for check in check_verdicts(dagster):
        yield MetricSample(names.CHECK, (*_labels_of(check.asset), check.name), names.CHECK_STATES[check.state])


def _newest_works(dagster: DagsterAnswers) -> list[NewestWork]:
    nodes = dagster.ask(_WORK)["assetNodes"]
    return [
        NewestWork.of(path, node["assetMaterializations"])
        for node in nodes
        # A user's assets have keys of their own.
        if (path := node["assetKey"]["path"])[0] in cdc_names.ASSET_LAYERS and len(path) == 3
    ]


def _of_works(works: Sequence[NewestWork]) -> Iterator[MetricSample]:
    for newest in works:
        if newest.at is not None:
            yield MetricSample(names.WORKED_AT, newest.labels, newest.at)
        if "cdc/seconds" in newest.figures:
            yield MetricSample(names.WORK_SECONDS, newest.labels, newest.figures["cdc/seconds"])


def _of_backups(chains: Sequence[TableChain], works: Sequence[NewestWork]) -> Iterator[MetricSample]:
    # What the newest run has told of each backup: listing the objects of a store would cost requests at each scrape.
    figures_of = {newest.labels[1:]: newest.figures for newest in works if newest.labels[0] == "backup"}
    for chain in chains:
        labels = (chain.source, chain.table)
        if chain.bronze_epoch is None or labels not in figures_of:
            continue
        figures = figures_of[labels]
        copied = figures.get("cdc/epoch_records", 0) if figures.get("cdc/epoch") == chain.bronze_epoch else 0
        yield MetricSample(names.LAG, (*labels, "backup"), max(0, chain.bronze_records - copied))


def _labels_of(path: Sequence[str]) -> tuple[str, str, str]:
    layer, source, last = path
    # `(silver, world, silver_country)` is of the table country, `(connector, world, connector_world)` of none.
    return layer, source, "" if layer == "connector" else last.removeprefix(f"{layer}_")


def _of_cluster(cluster: str, kafka: KafkaCluster) -> Iterator[MetricSample]:
    topics = kafka.clients.admin().list_topics(timeout=10).topics.values()
    lacking = [p for topic in topics for p in topic.partitions.values() if len(p.isrs) < len(p.replicas)]
    yield MetricSample(names.UNDER_REPLICATED, (cluster,), len(lacking))


def _of_disks(lake: str) -> Iterator[MetricSample]:
    places = {"home": settings.home(), **({} if is_object(lake) else {"lake": Path(lake)})}
    for disk, path in places.items():
        if path.exists():
            usage = shutil.disk_usage(path)
            yield MetricSample(names.DISK_FREE, (disk,), usage.free)
            yield MetricSample(names.DISK_SIZE, (disk,), usage.total)


class FigureCache:
    """The answer of `collect` for `seconds`: scrapes that come sooner, or at the same time, cost nothing."""

    def __init__(self, collect: Callable[[], Sequence[MetricSample]], *, seconds: float) -> None:
        self._collect, self._seconds = collect, seconds
        self._found: Sequence[MetricSample] = ()
        self._at: float | None = None
        self._collecting = threading.Lock()

    def figures(self) -> Sequence[MetricSample]:
        """The newest samples, none older than `seconds`; whoever asks while they are collected waits for them."""
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
        """No family: without this the registry would collect when it is told of us."""
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


def serve(cache: FigureCache, port: int) -> tuple[WSGIServer, threading.Thread]:
    """Begin to serve on the loopback: the server, and its thread. Port 0: one that is free.

    Figures are for whoever is on this machine, and for no page in a browser: another host's name (DNS rebinding) and a page of
    another origin are refused.

    Raises:
        OSError: the port is taken.
    """
    from prometheus_client import make_wsgi_app
    from prometheus_client.exposition import ThreadingWSGIServer

    metrics = make_wsgi_app(_registry(cache))

    def guard(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        sent = {"host": "HTTP_HOST", "origin": "HTTP_ORIGIN"}
        refused = foreign({name: environ[variable] for name, variable in sent.items() if variable in environ})
        if refused is None:
            return metrics(environ, start_response)
        status, why = refused
        start_response(f"{status.value} {status.phrase}", [("Content-Type", "text/plain; charset=utf-8")])
        return [why.encode()]

    server = make_server("127.0.0.1", port, guard, ThreadingWSGIServer, handler_class=_Silent)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    return server, thread


class _Silent(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        """A line for each scrape tells nobody anything."""


def _registry(cache: FigureCache) -> Any:
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry()
    registry.register(Families(cache))
    return registry
