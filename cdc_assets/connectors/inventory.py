"""Every connector of the two Connect clusters as rows for people, failed first; and where a connector of a name runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from cdc_assets import names, settings
from cdc_assets.connectors.beginning import is_beginning
from cdc_assets.errors import ConnectError
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.connect import ConnectClient, ConnectorOverview
from cdc_assets.resources.connect.states import severity

if TYPE_CHECKING:
    from cdc_assets.resources.platform import Platform

_BEGINNING = (
    "created, not begun: cdc apply; with offsets of an earlier one: cdc resume {0}, or cdc offsets reset {0} and cdc apply"
)


def clusters(platform: Platform) -> Iterator[tuple[str, ConnectClient]]:
    """Each core and the lake; once, where some are one."""
    seen = set[str]()
    for name in (*settings.core_clusters("CONNECT"), names.LAKE):
        connect = platform.lake_connect() if name == names.LAKE else platform.core_connect(name)
        if connect.url not in seen:
            seen.add(connect.url)
            yield name, connect


def connector_rows(platform: Platform, sources: Sequence[BaseSource]) -> list[dict[str, Any]]:
    """One row per connector: state is the worst of the connector and its tasks; UNKNOWN where its cluster does not answer.

    Raises:
        ConnectError: no cluster answers.
    """
    declared, captures = connector_owners(sources), {names.connector_name(each): each.cluster for each in sources}
    rows, away, asked = [], dict[str, ConnectError](), dict(clusters(platform))
    for cluster, connect in asked.items():
        try:
            rows += [_row(cluster, found, declared.get(name)) for name, found in connect.overview().items()]
        except ConnectError as error:
            away[cluster] = error
    if len(away) == len(asked):
        raise next(iter(away.values()))
    seen = {row["name"] for row in rows}
    for name, source in declared.items():
        if name not in seen:
            cluster = captures.get(name, names.LAKE if names.LAKE in asked else names.CORE)
            rows.append(_unknown(name, source, cluster, away[cluster]) if cluster in away else _absent(name, source))
    return sorted(rows, key=lambda row: (severity(row["state"]), row["cluster"], row["name"]))


def connector_owners(sources: Iterable[BaseSource]) -> dict[str, str]:
    """Each declared connector's name and its source's; sources', where they share a mirror."""
    found: dict[str, str] = {}
    for source in sources:
        found |= {name: f"{found[name]}, {source.name}" if name in found else source.name for name in _names(source)}
    return found


def locate(platform: Platform, name: str) -> ConnectClient:
    """The Connect cluster that has the connector.

    Raises:
        ConnectError: naming the connectors that there are; or a cluster that does not answer, where no other has it.
    """
    known, asked = list[str](), dict(clusters(platform))
    away: ConnectError | None = None
    for connect in asked.values():
        try:
            there = connect.connectors()
        except ConnectError as error:
            away = error
            continue
        if name in there:
            return connect
        known += there
    if away is not None:
        raise ConnectError(f"whether there is a connector {name} cannot be told: {away}")
    raise ConnectError(f"no connector {name} on {' or '.join(asked)} Connect; there are: {', '.join(sorted(known)) or 'none'}")


def _names(source: BaseSource) -> list[str]:
    capture = [names.connector_name(source.captured)] if source.captured else []
    mirror = names.is_mirrored(source)
    on_lake = {
        names.mirror_connector_name(source): mirror,
        names.checkpoint_connector_name(source): mirror and source.mirror.checkpoints is not None,
        names.heartbeat_connector_name(source): mirror and source.mirror.heartbeats is not None,
    }
    return [*capture, *(name for name, declared in on_lake.items() if declared)]


def _row(cluster: str, found: ConnectorOverview, source: str | None) -> dict[str, Any]:
    status = found.status
    tasks = status.tasks if status else ()
    return {
        "name": found.name,
        "cluster": cluster,
        "state": status.worst if status else "UNASSIGNED",
        "connector": status.state if status else "UNASSIGNED",
        "tasks": f"{sum(task == 'RUNNING' for task in tasks)}/{len(tasks)}",
        "source": source or "(foreign)",
        "type": found.type,
        "class": found.config.get("connector.class", "").rsplit(".", 1)[-1],
        "worker": status.worker if status else "",
        "trace": _BEGINNING.format(found.name) if is_beginning(found.config) else "; ".join(status.trace) if status else "",
    }


def _unknown(name: str, source: str, cluster: str, error: ConnectError) -> dict[str, Any]:
    return {**_absent(name, source), "state": "UNKNOWN", "connector": "UNKNOWN", "cluster": cluster, "trace": str(error)}


def _absent(name: str, source: str) -> dict[str, Any]:
    gone = {"name": name, "cluster": "", "state": "ABSENT", "connector": "ABSENT", "tasks": "0/0", "source": source}
    return {**gone, "type": "source", "class": "", "worker": "", "trace": f"declared, not applied: cdc apply {source}"}
