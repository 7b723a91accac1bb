"""Brings a connector to its declared config: validate, apply only what differs, wait until every task runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cdc_assets.connectors.beginning import begin
from cdc_assets.connectors.difference import ConnectorDifference, difference, difference_of
from cdc_assets.connectors.owner import COMMIT, refuse_write
from cdc_assets.connectors.unchanged_value import has_another_text, settle
from cdc_assets.errors import ConnectError
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.connect import ConnectClient, ConnectorStatus

HELD = ("PAUSED", "STOPPED")


@dataclass(frozen=True)
class Applied:
    """What was done to a connector. Keys only: a value may be a secret."""

    name: str
    created: bool
    changed_keys: tuple[str, ...]
    status: ConnectorStatus
    resumed_offsets: int = 0
    written: bool = True
    """Whether it is ours to write: else `changed_keys` are what git has to bring."""

    @property
    def summary(self) -> str:
        """created, changed, unchanged; differs, where it is not ours to change."""
        change = "changed" if self.written else "differs"
        return "created" if self.created else (change if self.changed_keys else "unchanged")

    def to_json(self) -> dict[str, Any]:
        """What `-o json` prints of one connector."""
        return {
            "connector": self.name,
            "summary": self.summary,
            "changed_keys": list(self.changed_keys),
            "resumed_offsets": self.resumed_offsets,
            "state": self.status.state,
            "tasks": list(self.status.tasks),
            "managed_by": "cdc" if self.written else "gitops",
        }


def bring_connector(
    connect: ConnectClient,
    source: BaseSource,
    config: Mapping[str, str],
    *,
    resume_offsets: bool = False,
    hopeless: Callable[[], bool] = lambda: False,
) -> Applied:
    """Apply the config where the source's connectors are ours; observe the connector where git owns them.

    Raises:
        OwnerError: git owns it, and it is not there.
        ConnectError: as `apply_connector`; of one that git owns, that it does not run.
    """
    if source.managed_by == "cdc":
        return apply_connector(connect, config, resume_offsets=resume_offsets, hopeless=hopeless)
    found = difference_of(connect, source, config)
    if found.taken_by:
        refuse(found)
    if not found.exists:
        refuse_write(source, f"connector {found.name} is not on Connect at {connect.url}", COMMIT)
    status = connect.wait_running(found.name, hopeless=hopeless, mend=False)
    return Applied(found.name, False, tuple(change.key for change in found.changes), status, written=False)


def apply_connector(
    connect: ConnectClient,
    config: Mapping[str, str],
    *,
    resume_offsets: bool = False,
    hopeless: Callable[[], bool] = lambda: False,
) -> Applied:
    """Make the connector `config["name"]` be as declared, and running.

    A connector that somebody has paused or stopped gets the config, and is left paused or stopped. One that is created
    goes on from offsets of an earlier one of its name only with `resume_offsets` (connectors.beginning).

    Raises:
        OffsetsRemainError: it is created, Connect has kept offsets under its name, and nobody has chosen.
        ConnectError: with Connect's own findings when the config is not valid, or when the name is a foreign
            connector's; nothing is applied then. Also when it is held (PAUSED, STOPPED).
        ConnectorFailedError: when it, or a task, does not run.
    """
    name = config["name"]
    found = difference(connect, config)
    refuse(found)
    config = settle(config, found.running)
    if not found.exists:
        resumed = begin(connect, config, resume_offsets=resume_offsets)
        return Applied(name, True, (), connect.wait_running(name, hopeless=hopeless), len(resumed))
    held = _halt_state(connect, name)
    if found.changes and has_another_text(config, found.running):
        _reconfigure_stopped(connect, config, held)
    elif found.changes:
        connect.put_config(name, config)
    if held:
        done = "the declared config is applied, but it" if found.changes else "it"
        raise ConnectError(f"connector {name} at {connect.url}: {done} is {held}; when that is over: cdc resume {name}")
    status = connect.wait_running(name, hopeless=hopeless)
    return Applied(name, False, tuple(change.key for change in found.changes), status)


def _reconfigure_stopped(connect: ConnectClient, config: Mapping[str, str], held: str) -> None:
    """Give it the config while it has no task, and its state back."""
    name = config["name"]
    connect.stop(name)
    connect.put_config(name, config)
    if held == "PAUSED":
        connect.pause(name)
    elif not held:
        connect.resume(name)


def refuse(found: ConnectorDifference) -> None:
    """Raise what stands against applying it.

    Raises:
        ConnectError: saying so.
    """
    if found.taken_by:
        raise ConnectError(f"connector {found.name} at {found.url}: {found.refusal}")
    if found.refusal:
        raise ConnectError(f"connector {found.name} at {found.url} is not valid, nothing was applied: {found.refusal}")


def _halt_state(connect: ConnectClient, name: str) -> str:
    status = connect.status(name)
    return status.state if status is not None and status.state in HELD else ""
