"""Every connector of the two Connect clusters: where one of a name runs, how it is, and who may write it.

`managed_by: cdc` is whatever of ours does it, `gitops` an operator alone. Config and state of a connector (running, paused,
stopped) are what git declares. Its offsets, and a restart of what has failed, are in no manifest: a person may ask for those of
any connector.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from cdc_assets.capture.connectors.connector_start import is_beginning
from cdc_assets.clients.connect import ConnectClient
from cdc_assets.clients.connector_states import ConnectorOverview, severity
from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import ServiceError
from cdc_assets.registry.names import temporary
from cdc_assets.registry.source_declaration import BaseSource

if TYPE_CHECKING:
    from cdc_assets.clients.platform import Platform

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
    Raises ServiceError: no cluster answers."""
    declared, captures = connector_owners(sources), {names.connector_name(source): source.cluster for source in sources}
    rows, away, connects = [], dict[str, ServiceError](), dict(clusters(platform))
    for cluster, connect in connects.items():
        try:
            rows += [_row(cluster, overview, declared.get(name)) for name, overview in connect.overview().items()]
        except ServiceError as error:
            away[cluster] = error
    if len(away) == len(connects):
        raise next(iter(away.values()))
    seen = {row["name"] for row in rows}
    for name, source in declared.items():
        if name not in seen:
            cluster = captures.get(name, names.LAKE if names.LAKE in connects else names.CORE)
            rows.append(_unknown(name, source, cluster, away[cluster]) if cluster in away else _absent(name, source))
    return sorted(rows, key=lambda row: (severity(row["state"]), row["cluster"], row["name"]))


def connector_owners(sources: Iterable[BaseSource]) -> dict[str, str]:
    """Each declared connector's name and its source's; sources', where they share a mirror."""
    owners: dict[str, str] = {}
    for source in sources:
        owners |= {name: f"{owners[name]}, {source.name}" if name in owners else source.name for name in _names(source)}
    return owners


def locate(platform: Platform, name: str) -> ConnectClient:
    """The Connect cluster that has the connector.
    Raises ServiceError: naming the connectors that there are; or a cluster that does not answer, where no other has it."""
    there_are, connects = list[str](), dict(clusters(platform))
    away: ServiceError | None = None
    for connect in connects.values():
        try:
            there = connect.connectors()
        except ServiceError as error:
            away = error
            continue
        if name in there:
            return connect
        there_are += there
    if away is not None:
        raise ServiceError(f"whether there is a connector {name} cannot be told: {away}")
    raise ServiceError(
        f"no connector {name} on {' or '.join(connects)} Connect; there are: {', '.join(sorted(there_are)) or 'none'}"
    )


def _names(source: BaseSource) -> list[str]:
    capture = [names.connector_name(source.captured)] if source.captured else []
    mirror = names.is_mirrored(source)
    on_lake = {
        names.mirror_connector_name(source): mirror,
        names.checkpoint_connector_name(source): mirror and source.mirror.checkpoints is not None,
        names.heartbeat_connector_name(source): mirror and source.mirror.heartbeats is not None,
    }
    return [*capture, *(name for name, declared in on_lake.items() if declared)]


def _row(cluster: str, overview: ConnectorOverview, source: str | None) -> dict[str, Any]:
    status = overview.status
    tasks = status.tasks if status else ()
    return {
        "name": overview.name,
        "cluster": cluster,
        "state": status.worst if status else "UNASSIGNED",
        "connector": status.state if status else "UNASSIGNED",
        "tasks": f"{sum(task == 'RUNNING' for task in tasks)}/{len(tasks)}",
        "source": source or "(foreign)",
        "type": overview.type,
        "class": overview.config.get("connector.class", "").rsplit(".", 1)[-1],
        "worker": status.worker if status else "",
        "trace": _BEGINNING.format(overview.name) if is_beginning(overview.config) else "; ".join(status.trace) if status else "",
    }


def _unknown(name: str, source: str, cluster: str, error: ServiceError) -> dict[str, Any]:
    return {**_absent(name, source), "state": "UNKNOWN", "connector": "UNKNOWN", "cluster": cluster, "trace": str(error)}


def _absent(name: str, source: str) -> dict[str, Any]:
    gone = {"name": name, "cluster": "", "state": "ABSENT", "connector": "ABSENT", "tasks": "0/0", "source": source}
    return {**gone, "type": "source", "class": "", "worker": "", "trace": f"declared, not applied: cdc apply {source}"}


COMMIT = "commit what `cdc render --target strimzi` writes"
_FROM_HERE = (
    "where it must be done from here, pause the operator (annotation strimzi.io/pause-reconciliation) and declare "
    "managed_by: cdc for that time"
)


def refuse_write(source: BaseSource, what: str, instead: str = "") -> None:
    """Before anything of ours changes a connector of the source.
    Raises ServiceError: git owns it; `what` was asked for, `instead` is the way."""
    if source.managed_by == "gitops":
        raise ServiceError(
            f"{what}: the connectors of source {source.name} are managed_by: gitops, nothing was written; {instead or _FROM_HERE}"
        )


def refuse_write_of(sources: Iterable[BaseSource], connector: str, what: str, instead: str) -> None:
    """The same by the connector's name; a foreign connector is nobody's here.
    Raises ServiceError: git owns the source that declares it."""
    for source in sources:
        owned = connector_owners([source])
        if connector in owned or connector in map(temporary, owned):
            refuse_write(source, what, instead)
