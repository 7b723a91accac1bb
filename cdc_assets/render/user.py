"""KafkaUser: who may do what, and no more. Topics are named one by one, never by a prefix that another source may share.

Operations after https://kafka.apache.org/documentation/#security_authz_primitives; a transactional producer needs Write and
Describe on its transactional id, Connect's leader one on `connect-cluster-<group>` (KIP-618).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cdc_assets import names
from cdc_assets.connectors.mirrormaker2 import INTERNAL, READ, rights_at_core, rights_at_lake
from cdc_assets.kinds import kind_of
from cdc_assets.registry.identifiers import parse_table
from cdc_assets.registry.models import BaseSource, CapturedSource
from cdc_assets.render.deployment import Deployment
from cdc_assets.render.manifest import MIRROR, Manifest, manifest

_WRITE = ("Write", "Describe", "DescribeConfigs", "Create")

Acl = dict[str, Any]


def kafka_users(sources: Sequence[BaseSource], deployment: Deployment) -> list[Manifest]:
    """One per component and cluster that it talks to."""
    mirrored = [source for source in sources if names.is_mirrored(source)]
    captured = [each.captured for each in sources if each.captured]
    at_core = {topic: operations for source in mirrored for topic, operations in rights_at_core(source).items()}
    lake = [names.lake_topic(source, table) for source in sources for table in source.tables]
    # Nothing is committed, but a consumer with a group looks for its coordinator.
    own = _acl("group", "cdc_assets", ("Read", "Describe"), "prefix")
    spark = _acl("group", "spark-kafka-", ("Read", "Describe"), "prefix")
    read = [*at_core, *_marks(captured), *_histories(captured), *_marker_tables(captured)]
    users = {
        ("cdc-capture", "core"): _capture_acls(captured, deployment),
        (MIRROR, "core"): [*_grants(at_core), *_checkpoint_acls(mirrored)],
        (MIRROR, "lake"): _mirror_acls(mirrored, deployment),
        ("cdc-assets", "core"): [*_topics(read, READ), own],
        ("cdc-assets", "lake"): [*_topics(lake, READ), own, spark],
    }
    return [_user(name, role, acls, deployment) for (name, role), acls in users.items() if acls]


def _capture_acls(captured: Sequence[CapturedSource], deployment: Deployment) -> list[Acl]:
    written = [names.topic(source, table) for source in captured for table in source.tables]
    beats = [names.heartbeat_topic(source) for source in captured]
    asked = [names.signal_topic(source) for source in captured if source.asked]
    signals = [names.topic_of(s, parse_table(s.reconciliation.signals)) for s in captured if s.reconciliation.signals]
    recovering = sorted(names.schema_history_group(source) for source in captured if names.has_schema_history(source))
    return [
        *_topics([*written, *_marks(captured), *beats, *asked, *_marker_tables(captured), *signals], _WRITE),
        *_topics(_histories(captured), INTERNAL),
        *(_acl("group", group, ("Read", "Describe")) for group in recovering),
        *_worker(deployment.core.connect, f"_{deployment.core.connect}"),
    ]


def _marks(captured: Sequence[CapturedSource]) -> list[str]:
    return [name for source in captured for name in (names.marker_topic(source), names.notification_topic(source))]


def _marker_tables(captured: Sequence[CapturedSource]) -> list[str]:
    """Topics of the tables that markers are written to, where a database has such a table instead of a log message."""
    return [names.topic_of(s, parse_table(s.reconciliation.marker)) for s in captured if s.reconciliation.marker]


def _histories(captured: Sequence[CapturedSource]) -> list[str]:
    """Topics of schema histories, those of temporary connectors included."""
    found = [names.schema_history_topic(source) for source in captured if names.has_schema_history(source)]
    temporary = [source for source in captured if kind_of(source).binlog]
    return found + [names.temporary_schema_history_topic(source) for source in temporary]


def _checkpoint_acls(mirrored: Sequence[BaseSource]) -> list[Acl]:
    """Of the consumer groups whose places MirrorMaker carries over."""
    groups = {group for each in mirrored if each.mirror.checkpoints for group in each.mirror.checkpoints.groups}
    return [_acl("group", group, ("Describe",)) for group in sorted(groups)]


def _mirror_acls(mirrored: Sequence[BaseSource], deployment: Deployment) -> list[Acl]:
    needed = {topic: operations for source in mirrored for topic, operations in rights_at_lake(source).items()}
    own_group = MIRROR if deployment.mirror == "mirrormaker2" else deployment.lake.connect
    prefix = f"__{MIRROR}" if deployment.mirror == "mirrormaker2" else f"_{own_group}"
    return [*_grants(needed), *_worker(own_group, prefix)]


def _user(name: str, role: str, acls: list[Acl], deployment: Deployment) -> Manifest:
    cluster = deployment.core if role == "core" else deployment.lake
    spec = {"authentication": {"type": "tls"}, "authorization": {"type": "simple", "acls": acls}}
    return manifest("KafkaUser", f"{name}-{role}", deployment, spec, cluster=cluster.kafka)


def _worker(group: str, prefix: str) -> list[Acl]:
    """A Connect worker's own: its group, three topics, and the transactional ids of its leader and its tasks."""
    return [
        *_topics([f"{prefix}-{what}" for what in ("configs", "offsets", "status")], INTERNAL),
        _acl("group", group, ("Read", "Describe")),
        _acl("transactionalId", f"connect-cluster-{group}", ("Write", "Describe")),
        _acl("transactionalId", f"{group}-", ("Write", "Describe"), "prefix"),
    ]


def _topics(topics: Iterable[str], operations: Sequence[str]) -> list[Acl]:
    return [_acl("topic", topic, operations) for topic in sorted(set(topics))]


def _grants(needed: Mapping[str, Sequence[str]]) -> list[Acl]:
    return [_acl("topic", topic, operations) for topic, operations in sorted(needed.items())]


def _acl(kind: str, name: str, operations: Sequence[str], pattern: str = "literal") -> Acl:
    return {"resource": {"type": kind, "name": name, "patternType": pattern}, "operations": list(operations)}
