"""A Debezium connector as Connect has it, or why it cannot be taken over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cdc_assets import names
from cdc_assets.connectors.inventory import connector_owners
from cdc_assets.errors import AdoptionError
from cdc_assets.kinds import KINDS, Kind, names_with
from cdc_assets.registry.models import BaseSource
from cdc_assets.registry.other_settings import KEPT
from cdc_assets.resources.connect import ConnectClient
from cdc_assets.resources.connect.masking import is_reference, is_secret, mask_text, mask_value

_DEBEZIUM = "io.debezium.connector."


@dataclass(frozen=True)
class RunningConnector:
    """Its config with secrets among it, never printed; what each setting is where the config has none; what it has committed."""

    name: str
    url: str
    kind: Kind
    config: Mapping[str, str] = field(repr=False)
    defaults: Mapping[str, str | None]
    password_keys: frozenset[str]
    offsets: tuple[Mapping[str, Any], ...]

    def setting(self, key: str) -> str | None:
        """What holds: the config's value, else the plugin's default."""
        return self.config.get(key, self.defaults.get(key))

    def display(self, key: str) -> str | None:
        """The config's value, fit to be printed and written."""
        return mask_value(key, self.config[key], self.password_keys) if key in self.config else None

    def value_to_keep(self, key: str) -> str | None:
        """The config's value as a registry may hold it: a secret only as `(kept)`."""
        return registry_value(key, self.config.get(key), self.password_keys)


def registry_value(key: str, value: str | None, password_keys: frozenset[str]) -> str | None:
    """A setting's value as a registry may hold it; None where there is none."""
    if value is None or is_reference(value):
        return value
    return KEPT if is_secret(key, password_keys) or mask_text(value) != value else value


def read_connector(connect: ConnectClient, name: str, sources: Iterable[BaseSource]) -> RunningConnector:
    """The connector, which runs.

    Raises:
        AdoptionError: there is none, it is none of Debezium's, or of a kind that is not taken over, it is declared already, or it
            does not run.
        ConnectError: Connect cannot be asked.
    """
    config = connect.config(name)
    if config is None:
        others = [
            each.name for each in connect.overview().values() if each.config.get("connector.class", "").startswith(_DEBEZIUM)
        ]
        raise AdoptionError(
            f"no connector {name} at {connect.url}; connectors of Debezium there: {', '.join(others) or 'none'}; "
            "cdc get connectors"
        )
    kind = _kind_of(name, config.get("connector.class", ""))
    _refuse_declared(name, sources)
    status = connect.status(name)
    if status is None or not status.running:
        state = "nobody knows its state" if status is None else f"{status.state}, tasks {', '.join(status.tasks) or 'none'}"
        why = f": {'; '.join(status.trace)}" if status and status.trace else ""
        way = f"cdc resume {name}" if status and status.state in ("PAUSED", "STOPPED") else f"cdc restart {name}"
        raise AdoptionError(f"connector {name} at {connect.url} does not run ({state}){why}; {way}, then cdc adopt {name}")
    plugin = config["connector.class"]
    return RunningConnector(
        name=name,
        url=connect.url,
        kind=kind,
        config=config,
        defaults=connect.default_values(plugin),
        password_keys=connect.password_keys(plugin),
        offsets=tuple(connect.offsets(name)),
    )


def _kind_of(name: str, connector_class: str) -> Kind:
    if not connector_class.startswith(_DEBEZIUM):
        raise AdoptionError(
            f"connector {name} is {connector_class or 'of no class'}, and not one of Debezium's that captures a database; topics "
            "that others fill are a source of kind topics (docs/how-to/add-a-source.md)"
        )
    rows = {row.debezium: row for row in KINDS.values() if row.debezium}
    kind = rows.get(connector_class.removeprefix(_DEBEZIUM))
    if kind is None or kind.adoption is None:
        known = ", ".join(names_with("adoption"))
        raise AdoptionError(
            f"connector {name} is {connector_class}, and cdc adopt takes over those of kind {known} only. By hand: declare the "
            "source with capture.connector, capture.topic_prefix and its tables' columns; then cdc diff (docs/how-to/adopt.md)"
        )
    return kind


def _refuse_declared(name: str, sources: Iterable[BaseSource]) -> None:
    owners = connector_owners(sources)
    if name in owners:
        raise AdoptionError(f"connector {name} is declared already, by source {owners[name]}: cdc diff {owners[name]}")
    if name in map(names.temporary, owners):
        raise AdoptionError(f"connector {name} is a temporary one of an onboarding, and goes by itself; cdc get connectors")
