"""Brings a connector to its declared config: validate, apply only what differs, wait until every task runs."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_assets.errors import ConnectError
from cdc_assets.resources.connect import ConnectClient, ConnectorStatus


@dataclass(frozen=True)
class Applied:
    """What was done to a connector. Keys only: a value may be a secret."""

    name: str
    created: bool
    changed_keys: tuple[str, ...]
    status: ConnectorStatus

    @property
    def summary(self) -> str:
        """created, changed or unchanged."""
        return "created" if self.created else ("changed" if self.changed_keys else "unchanged")


def apply_connector(connect: ConnectClient, config: dict[str, str]) -> Applied:
    """Make the connector `config["name"]` be as declared, and running.

    Raises:
        ConnectError: with Connect's own findings when the config is not valid; nothing is applied then.
        ConnectorFailedError: when it, or a task, does not run.
    """
    name = config["name"]
    current = connect.config(name)
    changed = tuple(sorted(k for k in {*config, *(current or {})} if config.get(k) != (current or {}).get(k)))
    if changed:
        findings = connect.validate(config)
        if findings:
            lines = "; ".join(f"{key}: {' '.join(errors)}" for key, errors in sorted(findings.items()))
            raise ConnectError(f"connector {name} at {connect.url} is not valid, nothing was applied: {lines}")
        connect.put_config(name, config)
    status = connect.wait_running(name)
    return Applied(name, current is None, changed if current is not None else (), status)
