"""Two tables or sources that would write to one place: one connector, topic, Delta table, backup folder or slot.

Every name that this project derives is judged as its store compares names:

- Kafka refuses a topic whose name differs from another's only by `.` and `_`, since its metrics cannot tell the two apart
  (ReplicationControlManager.validateNewTopicNames, 4.3).
- The file systems of macOS and Windows do not tell upper case from lower case.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from cdc_assets import names
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource, CapturedSource

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
        told = f"{second.what} {second.name!r}"
        if first.name != second.name:
            told = f"{told} and {first.name!r}, which the store cannot tell apart"
        return f"{second.owner} and {other} would both write to {told}; {way}"


def find_collisions(sources: Sequence[BaseSource], *, case_blind: bool = CASE_BLIND) -> Iterator[Collision]:
    """At most one of each pair of tables: the first place that they share."""
    seen: dict[tuple[str, str], WriteTarget] = {}
    told: set[tuple[str, int | None, str, int | None]] = set()
    for place in (place for source in sources for place in _places(source, case_blind)):
        earlier = seen.setdefault((place.what, place.compared), place)
        pair = (earlier.source.name, earlier.index, place.source.name, place.index)
        if earlier is not place and pair not in told:
            told.add(pair)
            yield Collision(place, earlier)


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
    """By their cluster: a Connect cluster has each name once. A KafkaMirrorMaker2's is of all its sources."""
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
    """What it writes besides the tables' own."""
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
