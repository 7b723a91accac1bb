"""The MirrorMaker connector that carries a source's topics to the lake's cluster, if one on the lake's Connect does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdc_assets.adoption.running_connector import registry_value
from cdc_assets.adoption.setting_differences import differing_keys
from cdc_assets.connectors.inventory import connector_owners
from cdc_assets.connectors.kept_settings import is_listed
from cdc_assets.connectors.mirrormaker2 import mirror_config
from cdc_assets.errors import AdoptionError
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.connect import ConnectClient
from cdc_assets.resources.kafka import KafkaCluster

_CLASS, _POLICY = "MirrorSourceConnector", "replication.policy.class"
_SEPARATOR = "replication.policy.separator"
_POLICIES = {"DefaultReplicationPolicy": "default", "IdentityReplicationPolicy": "identity"}


@dataclass(frozen=True)
class FoundMirror:
    """A mirror's name, what it calls the core cluster, how it names copies, and its whole config."""

    name: str
    alias: str
    replication: str
    config: Mapping[str, str] = field(repr=False)
    password_keys: frozenset[str]

    def block(self) -> dict[str, Any]:
        """The block `mirror` of the entry, without settings."""
        return {"connector": self.name, "alias": self.alias}

    def other_settings(self, source: BaseSource) -> dict[str, str | None]:
        """The settings that the entry has to declare, so that the mirror is rendered as it is."""
        ours = mirror_config(source)
        return {key: registry_value(key, self.config.get(key), self.password_keys) for key in differing_keys(self.config, ours)}


@dataclass(frozen=True)
class CoreSide:
    """The core cluster of the topics; `is_one_of_many`: there are others, which may have topics of these names, too."""

    name: str
    bootstrap: str
    is_one_of_many: bool

    def is_read_by(self, config: Mapping[str, str]) -> bool:
        """Whether the mirror reads this cluster: told by an address that both name, where there are others."""
        theirs = config.get("source.cluster.bootstrap.servers", "").split(",")
        return not self.is_one_of_many or bool({each.strip() for each in theirs} & {*self.bootstrap.split(",")})


def find_mirror(
    connect: ConnectClient, lake: KafkaCluster, core: CoreSide, topics: Sequence[str], sources: Iterable[BaseSource]
) -> FoundMirror | None:
    """The mirror that takes all of these topics of the core cluster; None where no connector takes any.

    Raises:
        AdoptionError: it is another source's, it takes some of them only, several do, it names the copies in a way that is not
            known here, or they are filled by a MirrorMaker that is no connector of that Connect.
    """
    found = {}
    for name, about in connect.overview().items():
        if about.config.get("connector.class", "").rsplit(".", 1)[-1] == _CLASS and core.is_read_by(about.config):
            found[name] = [topic for topic in topics if is_listed(topic, about.config.get("topics", ".*").split(","))]
    takers = {name: taken for name, taken in found.items() if taken}
    if not takers:
        _refuse_copies(lake, [f"{core.name}.{topic}" for topic in topics], connect.url)
        return None
    if len(takers) > 1:
        raise AdoptionError(
            f"topics of the connector are carried by mirrors {', '.join(takers)} at {connect.url}: one must do it"
        )
    name, taken = next(iter(takers.items()))
    if lacks := sorted(set(topics) - set(taken)):
        raise AdoptionError(f"mirror {name} at {connect.url} does not carry {', '.join(lacks)}: add it to its topics, then again")
    if owner := connector_owners(sources).get(name):
        raise AdoptionError(
            f"mirror {name} at {connect.url} is declared already, by source {owner}, and a source has one of its own: let "
            f"another mirror carry {', '.join(topics)}, and take them out of this one's topics; then again"
        )
    return _read_mirror(connect, name)


def _read_mirror(connect: ConnectClient, name: str) -> FoundMirror:
    config = connect.config(name) or {}
    status = connect.status(name)
    if status is None or not status.running:
        state = status.state if status else "in no state"
        raise AdoptionError(f"mirror {name} at {connect.url} does not run (it is {state}): cdc restart {name}, then again")
    policy = config.get(_POLICY, "DefaultReplicationPolicy").rsplit(".", 1)[-1]
    if policy not in _POLICIES or config.get(_SEPARATOR, ".") != ".":
        raise AdoptionError(
            f"mirror {name} at {connect.url} names its copies by {policy} with separator {config.get(_SEPARATOR, '.')!r}; only "
            f"{', '.join(_POLICIES)} with a dot are known here"
        )
    keys = connect.password_keys(config["connector.class"])
    return FoundMirror(name, config.get("source.cluster.alias", "source"), _POLICIES[policy], config, keys)


def _refuse_copies(lake: KafkaCluster, wanted: Sequence[str], url: str) -> None:
    """A second mirror would write each record once more into the copies."""
    copies = sorted(lake.existing(wanted))
    if copies:
        raise AdoptionError(
            f"{', '.join(copies)} at {lake.bootstrap}: filled by no connector at {url}, perhaps by a MirrorMaker of its own. A "
            "mirror of ours would fill them a second time: let that one run on this Connect, or stop it and delete the copies"
        )
