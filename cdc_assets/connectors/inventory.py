"""Every connector of the two Connect clusters as rows for people, failed first; and where a connector of a name runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from cdc_assets import names
from cdc_assets.connectors.beginning import is_beginning
from cdc_assets.errors import ConnectError
from cdc_assets.registry.models import BaseSource, CapturedSource
from cdc_assets.resources.connect import ConnectClient, ConnectorOverview

if TYPE_CHECKING:
    from cdc_assets.resources.platform import Platform

_ORDER = {"FAILED": 0, "UNASSIGNED": 1, "RESTARTING": 2, "STOPPED": 3, "PAUSED": 4, "RUNNING": 5}

_BEGINNING = (
    "created, not begun: cdc apply; with offsets of an earlier one: cdc resume {0}, or cdc offsets reset {0} and cdc apply"
)


def clusters(platform: Platform) -> Iterator[tuple[str, ConnectClient]]:
    """Core and lake; once, where both are one."""
    core, lake = platform.core_connect(), platform.lake_connect()
    yield "core", core
    if lake.url != core.url:
        yield "lake", lake


def connector_rows(platform: Platform, sources: Iterable[BaseSource]) -> list[dict[str, Any]]:
    """One row per connector: state is the worst of the connector and its tasks."""
    declared = declared_names(sources)
    rows = []
    for cluster, connect in clusters(platform):
        rows += [_row(cluster, found, declared.get(name)) for name, found in connect.overview().items()]
    seen = {row["name"] for row in rows}
    rows += [_absent(name, source) for name, source in declared.items() if name not in seen]
    return sorted(rows, key=lambda row: (_ORDER.get(row["state"], -1), row["cluster"], row["name"]))


def declared_names(sources: Iterable[BaseSource]) -> dict[str, str]:
    """Each declared connector's name and its source's."""
    return {name: source.name for source in sources for name in _names(source)}


def locate(platform: Platform, name: str) -> ConnectClient:
    """The Connect cluster that has the connector.

    Raises:
        ConnectError: naming the connectors that there are.
    """
    known: list[str] = []
    for _, connect in clusters(platform):
        there = connect.connectors()
        if name in there:
            return connect
        known += there
    raise ConnectError(f"no connector {name} on core or lake Connect; there are: {', '.join(sorted(known)) or 'none'}")


def _names(source: BaseSource) -> list[str]:
    capture = [names.connector_name(source)] if isinstance(source, CapturedSource) else []
    mirror = names.is_mirrored(source)
    on_lake = {
        names.mirror_connector_name(source): mirror,
        names.checkpoint_connector_name(source): mirror and source.mirror.checkpoints is not None,
        names.heartbeat_connector_name(source): mirror and source.mirror.heartbeats is not None,
        names.sink_connector_name(source): source.sink is not None,
    }
    return [*capture, *(name for name, declared in on_lake.items() if declared)]


def _row(cluster: str, found: ConnectorOverview, source: str | None) -> dict[str, Any]:
    status = found.status
    states = [status.state, *status.tasks] if status else ["UNASSIGNED"]
    tasks = status.tasks if status else ()
    return {
        "name": found.name,
        "cluster": cluster,
        "state": min(states, key=lambda state: _ORDER.get(state, -1)),
        "connector": states[0],
        "tasks": f"{sum(task == 'RUNNING' for task in tasks)}/{len(tasks)}",
        "source": source or "(foreign)",
        "type": found.type,
        "class": found.config.get("connector.class", "").rsplit(".", 1)[-1],
        "worker": status.worker if status else "",
        "trace": _BEGINNING.format(found.name) if is_beginning(found.config) else "; ".join(status.trace) if status else "",
    }


def _absent(name: str, source: str) -> dict[str, Any]:
    gone = {"name": name, "cluster": "", "state": "ABSENT", "connector": "ABSENT", "tasks": "0/0", "source": source}
    return {**gone, "type": "source", "class": "", "worker": "", "trace": f"declared, not applied: cdc apply {source}"}
