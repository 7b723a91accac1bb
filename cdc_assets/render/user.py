"""KafkaUser: who may do what, and no more. Topics are named one by one, never by a prefix that another source may share.

Operations after https://kafka.apache.org/documentation/#security_authz_primitives; a transactional producer needs Write and
Describe on its transactional id, Connect's leader one on `connect-cluster-<group>` (KIP-618).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cdc_assets import names
from cdc_assets.registry.identifiers import parse_table
from cdc_assets.registry.models import BaseSource
from cdc_assets.render.deployment import Deployment
from cdc_assets.render.manifest import MIRROR, Manifest, manifest

READ = ("Read", "Describe", "DescribeConfigs")
_WRITE = ("Write", "Describe", "DescribeConfigs", "Create")
_INTERNAL = ("Read", "Write", "Describe", "DescribeConfigs", "Create")
_OWN_COPY = ("Read", "Write", "Describe", "DescribeConfigs", "Create", "Alter", "AlterConfigs")

Acl = dict[str, Any]


def kafka_users(sources: Sequence[BaseSource], deployment: Deployment) -> list[Manifest]:
    """One per component and cluster that it talks to."""
    mirrored = [source for source in sources if names.is_mirrored(source)]
    captured = [each.captured for each in sources if each.captured]
    core = [names.topic(source, table) for source in mirrored for table in source.tables]
    lake = [names.lake_topic(source, table) for source in sources for table in source.tables]
    copies = [names.lake_topic(source, table) for source in mirrored for table in source.tables]
    written = [names.topic(source, table) for source in captured for table in source.tables]
    marks = [name for source in captured for name in (names.marker_topic(source), names.notification_topic(source))]
    histories = [names.schema_history_topic(source) for source in captured if names.has_schema_history(source)]
    recovering = sorted(names.schema_history_group(source) for source in captured if names.has_schema_history(source))
    marked = [names.topic_of(s, parse_table(s.reconciliation.marker)) for s in captured if s.reconciliation.marker]
    signals = [names.topic_of(s, parse_table(s.reconciliation.signals)) for s in captured if s.reconciliation.signals]
    histories += [
        names.temporary_schema_history_topic(source) for source in captured if source.database.kind in ("mariadb", "mysql")
    ]
    asked = [names.signal_topic(source) for source in captured if source.asked]
    beats = [f"__debezium-heartbeat.{source.name}" for source in captured]
    own_group = MIRROR if deployment.mirror == "mirrormaker2" else deployment.lake.connect
    beside = [source.mirror for source in mirrored]
    told = [f"{names.CORE_ALIAS}.checkpoints.internal"] if any(each.checkpoints for each in beside) else []
    told += ["heartbeats"] if any(each.heartbeats for each in beside) else []
    readers = [group for each in beside if each.checkpoints for group in each.checkpoints.groups]
    syncs = f"mm2-offset-syncs.{names.CORE_ALIAS}.internal"
    prefix = f"__{MIRROR}" if deployment.mirror == "mirrormaker2" else f"_{own_group}"
    # Nothing is committed, but a consumer with a group looks for its coordinator.
    own = _acl("group", "cdc_assets", ("Read", "Describe"), "prefix")
    users = {
        ("cdc-capture", "core"): [
            *_topics([*written, *marks, *beats, *asked, *marked, *signals], _WRITE),
            *_topics(histories, _INTERNAL),
            *(_acl("group", group, ("Read", "Describe")) for group in recovering),
            *_worker(deployment.core.connect, f"_{deployment.core.connect}"),
        ],
        (MIRROR, "core"): [*_topics(core, READ), *(_acl("group", group, ("Describe",)) for group in sorted(set(readers)))],
        (MIRROR, "lake"): [
            *_topics(copies, _OWN_COPY),
            *_topics([syncs, *told], _INTERNAL),
            *_worker(own_group, prefix),
        ],
        ("cdc-assets", "core"): [*_topics([*core, *marks, *histories, *marked], READ), own],
        ("cdc-assets", "lake"): [
            *_topics(lake, READ),
            own,
            _acl("group", "spark-kafka-", ("Read", "Describe"), "prefix"),
        ],
    }
    sinks = [source for source in sources if source.sink is not None]
    if sinks:
        read = [names.lake_topic(source, table) for source in sinks for table in source.tables]
        groups = [_acl("group", f"connect-{names.sink_connector_name(source)}", ("Read", "Describe")) for source in sinks]
        # Beside a KafkaMirrorMaker2 the lake's KafkaConnect runs sinks alone, and is this user too.
        worker = _worker(deployment.lake.connect, f"_{deployment.lake.connect}") if deployment.mirror == "mirrormaker2" else []
        users["cdc-sink", "lake"] = [*_topics(read, READ), *groups, *worker]
    return [_user(name, role, acls, deployment) for (name, role), acls in users.items() if acls]


def _user(name: str, role: str, acls: list[Acl], deployment: Deployment) -> Manifest:
    cluster = deployment.core if role == "core" else deployment.lake
    spec = {"authentication": {"type": "tls"}, "authorization": {"type": "simple", "acls": acls}}
    return manifest("KafkaUser", f"{name}-{role}", deployment, spec, cluster=cluster.kafka)


def _worker(group: str, prefix: str) -> list[Acl]:
    """A Connect worker's own: its group, three topics, and the transactional ids of its leader and its tasks."""
    return [
        *_topics([f"{prefix}-{what}" for what in ("configs", "offsets", "status")], _INTERNAL),
        _acl("group", group, ("Read", "Describe")),
        _acl("transactionalId", f"connect-cluster-{group}", ("Write", "Describe")),
        _acl("transactionalId", f"{group}-", ("Write", "Describe"), "prefix"),
    ]


def _topics(topics: Iterable[str], operations: Sequence[str]) -> list[Acl]:
    return [_acl("topic", topic, operations) for topic in sorted(set(topics))]


def _acl(kind: str, name: str, operations: Sequence[str], pattern: str = "literal") -> Acl:
    return {"resource": {"type": kind, "name": name, "patternType": pattern}, "operations": list(operations)}
