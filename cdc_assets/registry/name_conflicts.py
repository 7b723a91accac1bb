"""Names that a registry must not have: two that meet in one place, and those that a server, Debezium or a mirror does not take.

Every name that this project derives is judged as its store compares names:

- Kafka refuses a topic whose name differs from another's only by `.` and `_`, since its metrics cannot tell the two apart
(ReplicationControlManager.validateNewTopicNames, 4.3).
- The file systems of macOS and Windows do not tell upper case from lower case.
- MirrorMaker 2 never copies some topics, whatever its filter says, or copies them under another name, and says nothing of it:
whoever awaits the copy waits for good (4.3.1, `MirrorSourceConnector.shouldReplicateTopic`, `ReplicationPolicy.isInternalTopic`,
`IdentityReplicationPolicy.looksLikeHeartbeat`; https://github.com/apache/kafka/tree/4.3.1/connect/mirror).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from cdc_assets.registry import names
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource
from cdc_assets.registry.table_declaration import Table

CASE_BLIND = sys.platform in ("darwin", "win32")
"""Whether the lake's folder may be one that compares names without regard to case."""


_KEYS = {
    "connector": "capture.connector",
    "mirror connector": "mirror.connector",
    "replication slot": "capture.slot",
    "publication": "capture.publication",
}


@dataclass(frozen=True)
class WriteTarget:
    """Something that is written by one table of one source; the whole source, where `index` is None."""

    source: BaseSource
    index: int | None
    what: str
    name: str
    compared: str
    key: str = "source"
    """Where the name is declared, if it is."""

    @property
    def owner(self) -> str:
        """Who writes there, for people."""
        return f"source {self.source.name}" if self.index is None else self.source.tables[self.index].name


@dataclass(frozen=True)
class Collision:
    """The later of two places that are one."""

    later: WriteTarget
    earlier: WriteTarget

    @property
    def message(self) -> str:
        """What would share what, and the way out."""
        first, second = self.earlier, self.later
        other = (
            first.owner
            if first.index is None or first.source.name == second.source.name
            else f"{first.owner} of source {first.source.name}"
        )
        one = "declare one of them in another source"
        way = "give one of them a name of its own" if second.index is None or first.source.name != second.source.name else one
        subject = f"{second.what} {second.name!r}"
        if first.name != second.name:
            subject = f"{subject} and {first.name!r}, which the store cannot tell apart"
        return f"{second.owner} and {other} would both write to {subject}; {way}"


def find_collisions(sources: Sequence[BaseSource], *, case_blind: bool = CASE_BLIND) -> Iterator[Collision]:
    """At most one of each pair of tables: the first place that they share."""
    seen: dict[tuple[str, str], WriteTarget] = {}
    reported: set[tuple[str, int | None, str, int | None]] = set()
    for target in (target for source in sources for target in _places(source, case_blind)):
        earlier = seen.setdefault((target.what, target.compared), target)
        pair = (earlier.source.name, earlier.index, target.source.name, target.index)
        if earlier is not target and pair not in reported:
            reported.add(pair)
            yield Collision(target, earlier)


def _places(source: BaseSource, case_blind: bool) -> Iterator[WriteTarget]:
    for what, name, compared in _connectors(source):
        yield WriteTarget(source, None, what, name, compared, _KEYS.get(what, "source"))
    own = list(_of_source(source))
    for what, name, compared in own:
        yield WriteTarget(source, None, what, name, compared, _KEYS.get(what, "source"))
    for index, table in enumerate(source.tables):
        for topic in _topics(source, table, by_connector=bool(own)):
            yield WriteTarget(source, index, *topic)
        for what, path in _folders(source, table):
            yield WriteTarget(source, index, what, path, path.lower() if case_blind else path)


def _connectors(source: BaseSource) -> Iterator[tuple[str, str, str]]:
    # A Connect cluster has each name once. The one of a KafkaMirrorMaker2 is of all its sources.
    if captured := source.captured:
        for name in _with_temporary(names.connector_name(captured)):
            yield "connector", name, f"core {name}"
    if names.is_mirrored(source) and not names.is_shared_mirror(source):
        yield "mirror connector", names.mirror_connector_name(source), f"lake {names.mirror_connector_name(source)}"


def _of_source(source: BaseSource) -> Iterator[tuple[str, str, str]]:
    captured = source.captured
    if captured is None:
        return
    own, database = names.capture_names(captured), captured.database.model_dump()
    server = f"{database.get('host')} {database.get('port')}"
    if "cdc/slot" in own:
        # Those of an onboarding too: it drops what has their names. A slot is of a server, a publication of a database.
        for slot in _with_temporary(own["cdc/slot"]):
            yield "replication slot", slot, f"{server} {slot}"
        for publication in _with_temporary(own["cdc/publication"]):
            yield "publication", publication, f"{server} {database['dbname']} {publication}"
    # Kinds without a binlog have no such setting. The server ends the older one of two.
    if client := captured.capture.server_id:
        yield "binlog client with server_id", str(client), f"{server} {client}"
    for topic in _topics_of_connector(captured):
        yield "topic", topic, f"{source.cluster} {_of_metrics(topic)}"


def _with_temporary(name: str) -> tuple[str, str]:
    return name, names.temporary(name)


def _topics_of_connector(source: CapturedSource) -> Iterator[str]:
    yield names.signal_topic(source)
    yield names.marker_topic(source)
    yield names.notification_topic(source)
    if names.has_schema_history(source):
        yield names.schema_history_topic(source)
        yield names.temporary_schema_history_topic(source)


def _topics(source: BaseSource, table: Table, *, by_connector: bool) -> Iterator[tuple[str, str, str]]:
    if by_connector:
        name = names.topic(source, table)
        yield "topic", name, f"{source.cluster} {_of_metrics(name)}"
    if names.is_mirrored(source):
        copy = names.lake_topic(source, table)
        yield "mirrored topic", copy, f"lake {_of_metrics(copy)}"


def _of_metrics(topic: str) -> str:
    return topic.replace(".", "_")


def _folders(source: BaseSource, table: Table) -> Iterable[tuple[str, str]]:
    yield "Delta table", names.silver_path("<lake>", source, table)
    if table.history == "scd2":
        yield "Delta table", names.history_path("<lake>", source, table)
    yield "Delta table", names.quarantine_path("<lake>", source, table)


_HEARTBEATS = "heartbeats"


def find_unmirrored(source: BaseSource) -> Iterator[tuple[int, str]]:
    """The index of each table whose topic has no copy of its name, and why."""
    if not names.is_mirrored(source):
        return
    for index, table in enumerate(source.tables):
        topic = names.topic(source, table)
        if why := _refusal(source, topic):
            yield index, f"MirrorMaker 2 {why}, got topic {topic!r}; give it another name, or take it out of this file"


def _refusal(source: BaseSource, topic: str) -> str:
    alias, is_identity = source.mirror.alias_of(source.cluster), source.topics.replication == "identity"
    if topic.startswith(("__", ".")):
        return "takes a topic whose name begins with '__' or '.' for Kafka's own, and never copies it"
    if topic.endswith(".checkpoints.internal") or (topic.startswith("mm2") and topic.endswith(".internal")):
        return "takes 'mm2….internal' and '….checkpoints.internal' for its own topics, and never copies them"
    if is_identity and topic.endswith(_HEARTBEATS):
        return f"calls the copy {alias}.{topic} although replication is identity: a name that ends in '{_HEARTBEATS}' is its own"
    if is_identity and alias == names.LAKE:
        return f"takes every topic for one that came from the lake where mirror.alias is {alias!r} and replication identity"
    if not is_identity and _is_cycle(topic):
        return (
            f"takes a topic with the part {names.LAKE!r} before its last dot for one that came from the lake, and never copies it"
        )
    return ""


def _is_cycle(topic: str) -> bool:
    """Whether one of the clusters that a name tells, each before a dot, is the lake's. Java's `split` leaves out empty ends."""
    while "." in topic.rstrip("."):
        cluster, _, topic = topic.partition(".")
        if cluster == names.LAKE:
            return True
    return False


def find_unquotable(source: BaseSource) -> Iterator[tuple[int, str]]:
    """The index of such a table, and why."""
    own = source.captured
    for index, table in enumerate(own.tables if own else ()):
        why = next(filter(None, map(own.database.name_refusal, table.id)), "") if own else ""
        if why:
            yield (
                index,
                f"{why}, got {table.name!r}; rename it at the source (ALTER TABLE … RENAME), or take it out of this file",
            )
