"""Who may write a source's connectors: `managed_by: cdc`, whatever of ours does it, or `gitops`, an operator alone.

Config and state of a connector (running, paused, stopped) are what git declares. Its offsets, and a restart of what has failed,
are in no manifest: a person may ask for those of any connector.
"""

from __future__ import annotations

from collections.abc import Iterable

from cdc_assets.connectors.inventory import connector_owners
from cdc_assets.errors import OwnerError
from cdc_assets.names import temporary
from cdc_assets.registry.models import BaseSource

COMMIT = "commit what `cdc render --target strimzi` writes"
_FROM_HERE = (
    "where it must be done from here, pause the operator (annotation strimzi.io/pause-reconciliation) and declare "
    "managed_by: cdc for that time"
)


def refuse_write(source: BaseSource, what: str, instead: str = "") -> None:
    """Before anything of ours changes a connector of the source.

    Raises:
        OwnerError: git owns it; `what` was asked for, `instead` is the way.
    """
    if source.managed_by == "gitops":
        raise OwnerError(
            f"{what}: the connectors of source {source.name} are managed_by: gitops, nothing was written; {instead or _FROM_HERE}"
        )


def refuse_write_of(sources: Iterable[BaseSource], connector: str, what: str, instead: str) -> None:
    """The same by the connector's name; a foreign connector is nobody's here.

    Raises:
        OwnerError: git owns the source that declares it.
    """
    for source in sources:
        known = connector_owners([source])
        if connector in known or connector in map(temporary, known):
            refuse_write(source, what, instead)
