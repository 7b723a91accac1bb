"""A connector's first start: created STOPPED, its offsets looked at, then begun.

Connect keeps a connector's offsets under its name when it is deleted, and goes on from them without a word when one of that
name is created again: a source connector skips what it would read anew, or reads again what it must not. So nobody of ours
creates a connector that runs. It is created STOPPED and marked; Connect says which offsets it has; none: it begins.

| after a crash there is | the next call |
|---|---|
| no connector | begins at the beginning of this |
| a marked one (STOPPED, has never run) | looks at its offsets: that is ours, and nobody has stopped it |
| one that is not marked | is done: created RUNNING in one request |

The mark lies in the config, because nothing else is written in the same request as the state. It is not taken out by a second
request, since between that and `resume` a crash would leave a connector that looks as if a person had stopped it: the marked
connector is deleted and created as declared, RUNNING (0.6 s more than creating it at once: ADR 38).

Initial state: KIP-980 (Kafka 3.7); offsets: KIP-875 (3.6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cdc_assets.capture.connectors.connector_restart import begin_unfinished, has_place
from cdc_assets.registry.errors import RefusalError

if TYPE_CHECKING:
    from cdc_assets.clients.connect import ConnectClient
    from cdc_assets.clients.connector_states import SourceOffset

# No plugin knows it, and no connector that has it is ever started by us.
MARK = "cdc_assets.beginning"
_SHOWN = 3


def is_beginning(config: Mapping[str, str] | None) -> bool:
    """Whether it was created by `begin` and has not been begun."""
    return config is not None and MARK in config


def without_mark(config: Mapping[str, str]) -> dict[str, str]:
    """As it was declared."""
    return {key: value for key, value in config.items() if key != MARK}


def begin(connect: ConnectClient, config: Mapping[str, str], *, resume_offsets: bool = False) -> list[dict[str, Any]]:
    """Create the connector and let it run; the offsets from which it goes on (empty: from none).
    Raises RefusalError: Connect has offsets of that name, and nobody has said whether they are to be used; the connector is left
    STOPPED and marked; ServiceError: as Connect says."""
    offsets = _ensure_stopped(connect, config)
    if has_place(offsets) and not resume_offsets:
        raise RefusalError(_question(connect, config["name"], offsets))
    _run(connect, config)
    return offsets if has_place(offsets) else []


def begin_anew(connect: ConnectClient, config: Mapping[str, str]) -> None:
    """Create the connector and let it run from no offset, whatever Connect has kept under its name.
    Raises ServiceError: as Connect says."""
    if _ensure_stopped(connect, config):
        connect.reset_offsets(config["name"])
    _run(connect, config)


def create_stopped(
    connect: ConnectClient, config: Mapping[str, str], offsets: Sequence[SourceOffset], *, keep: bool = True
) -> list[dict[str, Any]]:
    """Create the connector STOPPED and marked, to go on from these offsets; with `keep` from those that Connect has kept under
    its name, where they name a place. What it goes on from is returned; `run_created` lets it run.
    Raises ServiceError: as Connect says."""
    name, kept = config["name"], _ensure_stopped(connect, config)
    if keep and has_place(kept):
        return kept
    if kept:
        connect.reset_offsets(name)
    if offsets:
        connect.patch_offsets(name, offsets)
    return connect.offsets(name, missing_ok=False)


def run_created(connect: ConnectClient, config: Mapping[str, str]) -> None:
    """Let a connector that was created STOPPED run as it is declared. Raises ServiceError: as Connect says."""
    _run(connect, config)


def _ensure_stopped(connect: ConnectClient, config: Mapping[str, str]) -> list[dict[str, Any]]:
    name = config["name"]
    if connect.config(name) is None:
        connect.create(name, {**config, MARK: "true"}, initial_state="STOPPED")
    connect.await_stopped(name)
    return connect.offsets(name, missing_ok=False)


def _run(connect: ConnectClient, config: Mapping[str, str]) -> None:
    begin_unfinished(connect, config)
    connect.delete(config["name"])
    connect.create(config["name"], config)


def _question(connect: ConnectClient, name: str, offsets: list[dict[str, Any]]) -> str:
    shown = "; ".join(f"{entry['partition']} at {entry['offset']}" for entry in offsets[:_SHOWN])
    more = f" and {len(offsets) - _SHOWN} more" if len(offsets) > _SHOWN else ""
    return (
        f"connector {name} at {connect.url} was deleted once, and Connect has kept its offsets: {shown}{more}. It is created "
        f"and left STOPPED. To go on from them: cdc resume {name} (or cdc apply --resume-offsets). To begin anew, which reads "
        f"everything again: cdc offsets reset {name}, then cdc apply"
    )
