"""What the login may do of which `cdc apply` makes the mirror: to read the core's topics, to make and write the lake's.

MirrorMaker tries again and again where a right is lacking, and its connector is RUNNING meanwhile. So the brokers are asked
before it is made. https://kafka.apache.org/documentation/#security_authz_primitives
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from cdc_assets.connectors.mirrormaker2 import rights_at_core, rights_at_lake
from cdc_assets.preflight.finding import Finding
from cdc_assets.quantity import quantity
from cdc_assets.registry.models import BaseSource
from spark.kafka.login import read_login

if TYPE_CHECKING:
    from cdc_assets.resources.kafka import TopicState

CHECK = "mirror_rights"
_SHOWN = 3


class GuardedCluster(Protocol):
    """What is asked of `KafkaCluster`."""

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses, as a client takes them."""

    @property
    def login(self) -> str:
        """The path of its client.properties; empty where it asks for none."""

    def states(self, topics: Sequence[str]) -> Mapping[str, TopicState]:
        """Those that there are."""

    def rights_lacking(self, wanted: Mapping[str, Sequence[str]]) -> Mapping[str, tuple[str, ...]]:
        """By topic the operations of those wanted that the login may not do."""


def findings(source: BaseSource, core: GuardedCluster, lake: GuardedCluster) -> Iterator[Finding]:
    """Of both clusters; none where git deploys the mirror, with users of its own, or where no login is asked for."""
    if source.managed_by == "gitops":
        return
    for cluster, wanted in ((core, rights_at_core(source)), (lake, rights_at_lake(source))):
        if cluster.login:
            yield from _of_cluster(cluster, wanted)


def _of_cluster(cluster: GuardedCluster, wanted: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    lacking = cluster.rights_lacking(wanted)
    # What has records is written by somebody: the file on the workers may hold another user.
    seen = [topic for topic in lacking if "Write" in lacking[topic] and "Describe" not in lacking[topic]]
    written = {name for name, state in cluster.states(seen).items() if any(end for _, end in state.ranges.values())}
    by_rights: dict[tuple[str, ...], list[str]] = {}
    for topic, operations in sorted(lacking.items()):
        if topic not in written:
            by_rights.setdefault(tuple(operations), []).append(topic)
    for rights, topics in by_rights.items():
        yield _finding(cluster, rights, topics)
    if not by_rights:
        yield Finding(CHECK, "ok", cluster.bootstrap, f"{cluster.login} may do what the mirror does there")


def _finding(cluster: GuardedCluster, rights: Sequence[str], topics: Sequence[str]) -> Finding:
    shown = ", ".join(topics[:_SHOWN]) + (f" and {quantity(len(topics) - _SHOWN, 'topic')} more" if topics[_SHOWN:] else "")
    message = (
        f"at {cluster.bootstrap}: {', '.join(rights)} {'are' if rights[1:] else 'is'} not granted to the login of "
        f"{cluster.login}, which cdc apply gives to the mirror: its connector would be RUNNING and carry nothing. "
        "Where the workers' file at that path holds another user, grant it to that one"
    )
    operations = " ".join(f"--operation {right}" for right in rights)
    named = " ".join(f"--topic {topic}" for topic in topics)
    mend = (
        f"as an administrator: kafka-acls.sh --bootstrap-server {cluster.bootstrap} --command-config ADMIN.properties "
        f"--add --allow-principal '{_principal(cluster.login)}' {operations} {named}"
    )
    return Finding(CHECK, "fail", shown, message, mend)


def _principal(path: str) -> str:
    """Of a password its user; a certificate's is the broker's to name (ssl.principal.mapping.rules)."""
    user = read_login(path).jaas()
    return f"User:{user.options['username']}" if user else "User:<of the certificate>"
