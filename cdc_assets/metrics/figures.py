"""One look at everything that is measured. A part that cannot be asked is told as that, and the others are there."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cache, partial
from pathlib import Path
from typing import Any

from cdc_assets import names as cdc_names
from cdc_assets import settings
from cdc_assets.errors import CdcAssetsError
from cdc_assets.ledger.read import SourceLedger
from cdc_assets.quarantine.quarantined_records import quarantine_records
from cdc_assets.registry.models import BaseSource
from cdc_assets.registry_files.loader import load_sources
from cdc_assets.resources import metric_names as names
from cdc_assets.resources.dagster_answers import DagsterAnswers
from cdc_assets.resources.kafka import KafkaCluster
from cdc_assets.resources.platform import Platform
from cdc_assets.volumetry.chain_status import TableChain, chain_status
from cdc_assets.volumetry.check_verdicts import check_verdicts
from spark.lake.place import is_object
from spark.ledger.terms import FATES

_WORK = """{ assetNodes { assetKey { path } assetMaterializations(limit: 1) { timestamp metadataEntries { label
  ... on FloatMetadataEntry { floatValue } ... on IntMetadataEntry { intRepr } } } } }"""
_SINCE = timedelta(hours=24)


@dataclass(frozen=True)
class MetricSample:
    """One sample: the values of its metric's labels, in their order."""

    name: str
    labels: tuple[str, ...]
    value: float


@dataclass(frozen=True)
class NewestWork:
    """The newest materialization of an asset: when (seconds since 1970; None: there was none), and the numbers it told."""

    place: tuple[str, str, str]
    at: float | None
    figures: Mapping[str, float]

    @classmethod
    def of(cls, path: Sequence[str], done: Sequence[Mapping[str, Any]]) -> NewestWork:
        """Of Dagster's answer for an asset's key."""
        entries = done[0]["metadataEntries"] if done else ()
        # `intValue` is none of a number beyond 32 bits.
        numbers = {entry["label"]: entry.get("floatValue", entry.get("intRepr")) for entry in entries}
        figures = {label: float(number) for label, number in numbers.items() if number is not None}
        return cls(_place(path), float(done[0]["timestamp"]) / 1000 if done else None, figures)


def collect(platform: Platform) -> list[MetricSample]:
    """Every figure of this moment."""
    started, found = time.monotonic(), list[MetricSample]()
    chains = cache(lambda: chain_status(platform))
    works = cache(lambda: _works(DagsterAnswers()))
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
        parts[f"{core}_kafka"] = partial(_of_core, platform, core)
    for part, ask in parts.items():
        try:
            found += list(ask())
            is_up = 1
        except (CdcAssetsError, OSError):
            is_up = 0
        found.append(MetricSample(names.PART_UP, (part,), is_up))
    return [*found, MetricSample(names.COLLECT_SECONDS, (), round(time.monotonic() - started, 3))]


def _of_chains(chains: Sequence[TableChain]) -> Iterator[MetricSample]:
    for chain in chains:
        place = (chain.source, chain.table)
        yield MetricSample(names.TABLE_ERROR, place, int(chain.error is not None))
        yield MetricSample(names.BRONZE, place, chain.bronze_records)
        for link in ("mirror", "bronze", "silver", "history"):
            if (lag := getattr(chain, f"{link}_lag")) is not None:
                yield MetricSample(names.LAG, (*place, link), lag)
        for layer, rows in (("silver", chain.silver_rows), ("history", chain.history_versions)):
            if rows is not None:
                yield MetricSample(names.ROWS, (*place, layer), rows)


def _of_lake(lake: str, sources: Sequence[BaseSource]) -> Iterator[MetricSample]:
    since = datetime.now(timezone.utc) - _SINCE
    for source in sources:
        ledger = SourceLedger(lake, source)
        for table in source.tables:
            place = (source.name, cdc_names.table_name(table))
            yield MetricSample(names.QUARANTINE, place, len(quarantine_records(lake, source, table)))
            windows = ledger.windows(table, window="1h", since=since)
            for fate in FATES if windows else ():
                yield MetricSample(names.EVENTS, (*place, fate), sum(window.counts[fate] or 0 for window in windows))


def _of_checks(dagster: DagsterAnswers) -> Iterator[MetricSample]:
    for found in check_verdicts(dagster):
        yield MetricSample(names.CHECK, (*_place(found.asset), found.name), names.CHECK_STATES[found.state])


def _works(dagster: DagsterAnswers) -> list[NewestWork]:
    """The newest materialization of each asset of a source, and of a table."""
    nodes = [(node["assetKey"]["path"], node["assetMaterializations"]) for node in dagster.ask(_WORK)["assetNodes"]]
    return [NewestWork.of(path, done) for path, done in nodes if path[0] in cdc_names.ASSET_LAYERS and len(path) == 3]


def _of_works(works: Sequence[NewestWork]) -> Iterator[MetricSample]:
    for work in works:
        if work.at is not None:
            yield MetricSample(names.WORKED_AT, work.place, work.at)
        if "cdc/seconds" in work.figures:
            yield MetricSample(names.WORK_SECONDS, work.place, work.figures["cdc/seconds"])


def _of_backups(chains: Sequence[TableChain], works: Sequence[NewestWork]) -> Iterator[MetricSample]:
    """What the newest run has told of each backup: its store is not asked."""
    told = {work.place[1:]: work.figures for work in works if work.place[0] == "backup"}
    for chain in chains:
        place = (chain.source, chain.table)
        if chain.bronze_epoch is None or place not in told:
            continue
        held = told[place].get("cdc/epoch_records", 0) if told[place].get("cdc/epoch") == chain.bronze_epoch else 0
        yield MetricSample(names.LAG, (*place, "backup"), max(0, chain.bronze_records - held))


def _place(path: Sequence[str]) -> tuple[str, str, str]:
    """`(silver, world, country)` of an asset's key, whose last part begins with its layer; of a connector's there is no table."""
    layer, source, last = path
    return layer, source, "" if layer == "connector" else last.removeprefix(f"{layer}_")


def _of_core(platform: Platform, cluster: str) -> Iterator[MetricSample]:
    return _of_cluster(cluster, platform.core_kafka(cluster))


def _of_cluster(cluster: str, kafka: KafkaCluster) -> Iterator[MetricSample]:
    topics = kafka.clients.admin().list_topics(timeout=10).topics.values()
    lacking = [p for topic in topics for p in topic.partitions.values() if len(p.isrs) < len(p.replicas)]
    yield MetricSample(names.UNDER_REPLICATED, (cluster,), len(lacking))


def _of_disks(lake: str) -> Iterator[MetricSample]:
    places = {"home": settings.home(), **({} if is_object(lake) else {"lake": Path(lake)})}
    for place, path in places.items():
        if path.exists():
            usage = shutil.disk_usage(path)
            yield MetricSample(names.DISK_FREE, (place,), usage.free)
            yield MetricSample(names.DISK_SIZE, (place,), usage.total)
