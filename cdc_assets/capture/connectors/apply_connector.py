"""Brings a connector to its declared config: validate, apply only what differs, wait until every task runs.

A captured table's topic on the core cluster is made as the registry declares it. A config that Connect's validation refuses is
not applied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cdc_assets.capture.connectors.config_difference import ConnectorDifference, difference, difference_of
from cdc_assets.capture.connectors.connector_inventory import COMMIT, refuse_write
from cdc_assets.capture.connectors.connector_start import begin
from cdc_assets.capture.connectors.debezium_settings import retention_ms
from cdc_assets.capture.connectors.setting_overrides import has_another_text, settle
from cdc_assets.clients.connect import ConnectClient
from cdc_assets.clients.connector_states import ConnectorStatus
from cdc_assets.clients.kafka import KafkaCluster, TopicState
from cdc_assets.registry import names
from cdc_assets.registry.errors import ServiceError
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource
from cdc_assets.registry.table_declaration import Table

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
    Raises ServiceError: git owns it, and it is not there; as `apply_connector`; of one that git owns, that it does not run."""
    if source.managed_by == "cdc":
        return apply_connector(connect, config, resume_offsets=resume_offsets, hopeless=hopeless)
    compared = difference_of(connect, source, config)
    if compared.taken_by:
        refuse(compared)
    if not compared.exists:
        refuse_write(source, f"connector {compared.name} is not on Connect at {connect.url}", COMMIT)
    status = connect.wait_running(compared.name, hopeless=hopeless, mend=False)
    return Applied(compared.name, False, tuple(change.key for change in compared.changes), status, written=False)


def apply_connector(
    connect: ConnectClient,
    config: Mapping[str, str],
    *,
    resume_offsets: bool = False,
    hopeless: Callable[[], bool] = lambda: False,
) -> Applied:
    """Make the connector `config["name"]` be as declared, and running.

    A connector that somebody has paused or stopped gets the config, and is left paused or stopped. One that is created
    goes on from offsets of an earlier one of its name only with `resume_offsets` (connector_start).

    Raises RefusalError: it is created, Connect has kept offsets under its name, and nobody has chosen; ServiceError: with
    Connect's own findings when the config is not valid, or when the name is a foreign connector's; nothing is applied then. Also
    when it is held (PAUSED, STOPPED); ServiceError: when it, or a task, does not run.
    """
    name = config["name"]
    compared = difference(connect, config)
    refuse(compared)
    config = settle(config, compared.running)
    if not compared.exists:
        resumed = begin(connect, config, resume_offsets=resume_offsets)
        return Applied(name, True, (), connect.wait_running(name, hopeless=hopeless), len(resumed))
    current = connect.status(name)
    halted = current.state if current is not None and current.state in HELD else ""
    if compared.changes and has_another_text(config, compared.running):
        _reconfigure_stopped(connect, config, halted)
    elif compared.changes:
        connect.put_config(name, config)
    if halted:
        done = "the declared config is applied, but it" if compared.changes else "it"
        raise ServiceError(f"connector {name} at {connect.url}: {done} is {halted}; when that is over: cdc resume {name}")
    status = connect.wait_running(name, hopeless=hopeless)
    return Applied(name, False, tuple(change.key for change in compared.changes), status)


def _reconfigure_stopped(connect: ConnectClient, config: Mapping[str, str], state: str) -> None:
    """Give it the config while it has no task, and its state back."""
    name = config["name"]
    connect.stop(name)
    connect.put_config(name, config)
    if state == "PAUSED":
        connect.pause(name)
    elif not state:
        connect.resume(name)


def refuse(found: ConnectorDifference) -> None:
    """Raise what stands against applying it. Raises ServiceError: saying so."""
    if found.taken_by:
        raise ServiceError(f"connector {found.name} at {found.url}: {found.refusal}")
    if found.refusal:
        raise ServiceError(f"connector {found.name} at {found.url} is not valid, nothing was applied: {found.refusal}")


def make_topic(cluster: KafkaCluster, source: CapturedSource, table: Table, *, deadline: float) -> TopicState:
    """The topic, there within `deadline` seconds: partitions and replicas are the source's, retention may be the table's."""
    declared, name = source.topics, names.topic(source, table)
    cluster.ensure_topic(
        name,
        partitions=declared.partitions,
        retention_ms=int(retention_ms(source, table)),
        replication_factor=declared.replication_factor,
    )
    return cluster.await_state(name, deadline=deadline)
