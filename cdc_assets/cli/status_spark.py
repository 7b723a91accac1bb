"""The rows of `cdc status` about Spark beside the stack's own processes: a server of yours, and executors."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cdc_assets import settings
from cdc_assets.errors import SparkRunError
from cdc_assets.quantity import quantity
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.spark_needs import foreign_facts, lacks_of
from cdc_assets.resources.spark_work import RESTART, overlong_work
from cdc_assets.stack.components.spark_cluster import WORKERS
from cdc_assets.stack.resident import resident_bytes
from cdc_assets.stack.state import HEALTHY, UNHEALTHY

_EXECUTOR = "CoarseGrainedExecutorBackend"
_NO_PROCESS = {"pid": None, "rss_bytes": None, "restarts": 0, "since": None, "started_in": None, "detail": "", "log": ""}


def with_executors(components: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The components, and below each of Spark's workers the executors that live."""
    found: list[dict[str, Any]] = []
    for component in components:
        rows = list(_executors(component["pid"])) if component["name"] in WORKERS and component["pid"] else []
        apart = sum(row["rss_bytes"] for row in rows)
        # A worker's memory is told with that of its children.
        found += [{**component, "rss_bytes": (component["rss_bytes"] or 0) - apart} if rows else dict(component), *rows]
    return found


def foreign_spark() -> list[dict[str, Any]]:
    """A server of yours: itself, its master and its executors; nothing where Spark is the stack's own."""
    remote = settings.lookup("CDC_SPARK_REMOTE")
    if not remote or settings.is_of_stack(remote):
        return []
    try:
        facts = foreign_facts(Platform().spark())
    except SparkRunError as error:
        return [_row("spark (yours)", remote, str(error), health=UNHEALTHY)]
    lacks = list(lacks_of(facts))
    health = UNHEALTHY if any(lack.is_needed for lack in lacks) else HEALTHY
    told = "; ".join((f"Spark {facts.spark}", *(lack.message for lack in lacks)))
    alive = f"{quantity(len(facts.executors), 'executor')} alive, {quantity(facts.cluster.slots, 'task')} at a time"
    rows = [_row("spark (yours)", remote, told, health=health), _row("spark master (yours)", facts.cluster.master, alive)]
    return rows + [_row("executor (yours)", f"{executor.host} pid {executor.pid}", "") for executor in facts.executors]


def long_work() -> list[dict[str, Any]]:
    """Jobs that take far longer than their like."""
    own = settings.is_of_stack(settings.lookup("CDC_SPARK_REMOTE") or "")
    way = f": {RESTART} ends it" if own else ""
    return [_row("  job of Spark", "", f"{told}{way}", health=UNHEALTHY) for told in overlong_work(time.time())]


def _executors(worker: int) -> Iterator[dict[str, Any]]:
    import psutil

    try:
        children = {child: child.cmdline() for child in psutil.Process(worker).children()}
        own = {child: words for child, words in children.items() if any(_EXECUTOR in word for word in words)}
        held = resident_bytes(child.pid for child in own)
        for child, words in own.items():
            row = _row(f"  executor {words[words.index('--executor-id') + 1]}", "", "")
            yield {**row, "pid": child.pid, "rss_bytes": held[child.pid], "since": child.create_time()}
    except psutil.NoSuchProcess:
        # Ended while it was looked at: the next look finds its successor.
        return


def _row(name: str, address: str, detail: str, *, health: str = HEALTHY) -> dict[str, Any]:
    return {"name": name, "health": health, "address": address, **_NO_PROCESS, "detail": detail}
