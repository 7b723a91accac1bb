"""Why a connector carries nothing, with the command that mends it."""

from __future__ import annotations

from cdc_assets.resources.connect.client import ConnectClient


def connector_trouble(connect: ConnectClient, name: str) -> str:
    """One sentence; empty where the connector and all of its tasks run.

    Raises:
        ConnectError: the cluster does not answer.
    """
    status = connect.status(name)
    if status is None:
        return f"connector {name} does not exist at {connect.url}: ./cdc apply makes it"
    if status.running:
        return ""
    if status.state in ("PAUSED", "STOPPED"):
        return f"connector {name} is {status.state}: ./cdc resume {name}"
    if status.failed:
        mend = "" if status.meets_it_again else f"; ./cdc restart {name}"
        return f"connector {name} has failed: {'; '.join(status.trace) or 'it does not say why'}{mend}"
    return f"connector {name} is {status.state}, its tasks: {', '.join(status.tasks) or 'none yet'}"
