"""A source's connectors, taken from Kafka Connect: stopped, then without offsets, then deleted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cdc_assets import names
from cdc_assets.connectors.declared_connectors import DeclaredConnector, declared_connectors
from cdc_assets.connectors.owner import COMMIT
from cdc_assets.errors import CdcAssetsError, RemovalError
from cdc_assets.registry.models import BaseSource
from cdc_assets.registry_files.loader import REMOVED

if TYPE_CHECKING:
    from cdc_assets.resources.connect import ConnectClient
    from cdc_assets.resources.platform import Platform

_ASKED_SECONDS = 10.0


def remove_capture(platform: Platform, source: BaseSource) -> list[str]:
    """The connector that reads the database, and the one beside it of an onboarding that was not ended.

    Raises:
        RemovalError: Connect cannot be asked; names the words that go on without it.
    """
    gone = []
    for declared in _connectors_of(source, "capture"):
        for name in (declared.name, names.temporary(declared.name)):
            gone += _remove(platform, declared, name, forget=True)
    return gone


def remove_mirror(platform: Platform, source: BaseSource, *, forget: bool) -> list[str]:
    """The connectors on the lake's cluster. `forget`: their offsets go, because the topics that they are of go too.

    Raises:
        RemovalError: as `remove_capture`.
    """
    roles = ("mirror", "checkpoints", "heartbeats")
    return [name for one in _connectors_of(source, *roles) for name in _remove(platform, one, one.name, forget=forget)]


def running_capture(platform: Platform, source: BaseSource) -> str:
    """The capturing connector's name, where a Connect that answers has it; else empty."""
    try:
        found = list(_connectors_of(source, "capture"))
        return next((one.name for one in found if _has(platform, one)), "")
    except CdcAssetsError:
        return ""


def _has(platform: Platform, declared: DeclaredConnector) -> bool:
    return platform.connect(declared.cluster).within(_ASKED_SECONDS).config(declared.name) is not None


def _connectors_of(source: BaseSource, *roles: str) -> Iterator[DeclaredConnector]:
    try:
        found = declared_connectors([source])
    except CdcAssetsError as error:
        raise _away(source, error) from error
    return (declared for declared in found if declared.role in roles)


def _remove(platform: Platform, declared: DeclaredConnector, name: str, *, forget: bool) -> list[str]:
    """Raises RemovalError: the name is somebody else's connector, or git's."""
    away = (
        f"rename the file that declares {declared.source.name} to end in {REMOVED}, {COMMIT} then, and give this command again "
        "when the operator has deleted the connector"
    )
    if name == names.SHARED_MIRROR:
        return []  # other sources' topics are in it; git takes this one's out
    try:
        connect = platform.connect(declared.cluster)
        config = connect.config(name)
        if config is None:
            return []
        if declared.source.managed_by == "gitops":
            raise RemovalError(f"connector {name} at {connect.url} is managed_by: gitops, nothing was removed; {away}")
        running = config.get("connector.class", "")
        if running.rsplit(".", 1)[-1] != declared.config["connector.class"].rsplit(".", 1)[-1]:
            raise RemovalError(f"connector {name} at {connect.url} runs {running}: it is not of this source, and is left alone")
        _delete(connect, name, forget=forget)
    except RemovalError:
        raise
    except CdcAssetsError as error:
        raise _away(declared.source, error) from error
    return [f"connector {name}"]


def _delete(connect: ConnectClient, name: str, *, forget: bool) -> None:
    connect.stop(name)
    if forget:
        # Kept, they would be of a slot or topic that is gone by the time somebody creates the connector again.
        connect.reset_offsets(name)
    connect.delete(name)


def _away(source: BaseSource, error: CdcAssetsError) -> RemovalError:
    return RemovalError(
        f"the connectors of source {source.name} cannot be removed: {error}. Where their Kafka Connect is gone for good: "
        f"cdc remove {source.name} --keep connector,mirror"
    )
