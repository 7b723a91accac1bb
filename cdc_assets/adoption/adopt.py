"""Reads a running connector and all that belongs to it, makes the registry entry, and writes that; Connect is only asked.

The entry is proven before it is written: rendered from it, the connector's config and its mirror's are what Connect has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cdc_assets import names, settings
from cdc_assets.adoption.entry_file import entry_text, write_entry
from cdc_assets.adoption.found_mirror import CoreSide, FoundMirror, find_mirror
from cdc_assets.adoption.found_registry import null_notes, registry_block
from cdc_assets.adoption.found_tables import final_topic, table_entries
from cdc_assets.adoption.record_sample import envelope_of
from cdc_assets.adoption.running_connector import RunningConnector, read_connector
from cdc_assets.adoption.setting_differences import SettingDifference
from cdc_assets.adoption.source_block import AdoptionKind, FoundAtSource, secret_reference
from cdc_assets.adoption.taken_settings import capture_differences, mirror_differences, other_settings, refuse_unequal
from cdc_assets.adoption.topic_findings import topic_notes, topic_settings
from cdc_assets.errors import AdoptionError
from cdc_assets.kinds import KINDS, experimental_warnings
from cdc_assets.registry.declared import SOURCE_NAME
from cdc_assets.registry.models import BaseSource, CapturedSource
from cdc_assets.registry_files.collisions import find_collisions
from cdc_assets.registry_files.loader import load_sources, registry_files
from cdc_assets.resources.kafka import KafkaCluster, TopicState
from cdc_assets.resources.platform import Platform

_SNAPSHOTS = ("initial", "no_data", "recovery")
_NO_TABLE = {"name": "adoption.nothing"}


@dataclass(frozen=True)
class Adoption:
    """What would be, or was, written, and all that was read for it."""

    running: RunningConnector
    source: CapturedSource
    document: Mapping[str, Any]
    file: Path
    found: FoundAtSource
    mirror: FoundMirror | None
    topics: Mapping[str, TopicState | None]
    copies: Mapping[str, TopicState]
    differences: Sequence[SettingDifference]
    mirror_differences: Sequence[SettingDifference]
    notes: Sequence[str] = field(default=())

    @property
    def wrong(self) -> list[SettingDifference]:
        """Differences with which the lake would not be right."""
        return [each for each in (*self.differences, *self.mirror_differences) if each.weight == "wrong"]

    def to_json(self) -> dict[str, Any]:
        """What `-o json` prints."""
        return {
            "connector": self.running.name,
            "connect": self.running.url,
            "source": self.source.name,
            "file": str(self.file),
            **self.found.facts,
            "tables": [table.name for table in self.source.tables],
            "topics": {name: _offsets(state) for name, state in self.topics.items()},
            "offsets": [dict(entry) for entry in self.running.offsets],
            "mirror": self.mirror and {"connector": self.mirror.name, "alias": self.mirror.alias},
            "copies": {name: _offsets(state) for name, state in self.copies.items()},
            "differences": [each.to_json() for each in self.differences],
            "mirror_differences": [each.to_json() for each in self.mirror_differences],
            "notes": list(self.notes),
            "entry": entry_text(self.document),
        }


def look(
    platform: Platform, name: str, folder: Path, *, source: str = "", cluster: str = names.CORE, ours: bool = False
) -> Adoption:
    """The adoption of connector `name` beside a core cluster, as `source` (default: by its topic prefix); nothing is written.

    `ours`: the entry declares none of their settings, so that the next `cdc apply` brings ours.

    Raises:
        AdoptionError: it cannot be taken over, saying why; other CdcAssetsError: who could not be asked.
    """
    declared = load_sources(folder) if not folder.is_dir() or registry_files(folder) else ()
    running = read_connector(platform.core_connect(cluster), name, declared)
    own = _source_name(running, source)
    file = folder / f"{own}.yaml"
    if file.exists() or own in {each.name for each in declared}:
        raise AdoptionError(
            f"source {own} is declared already in {folder}: give this one another name: cdc adopt {name} --source NAME"
        )
    assert running.kind.adoption is not None
    kind: AdoptionKind = running.kind.adoption.load()()
    document = _first_document(running, kind, own) | ({} if cluster == names.CORE else {"cluster": cluster})
    found = kind.look(running, _validate({**document, "tables": [_NO_TABLE]}))
    document |= {block: {**document.get(block, {}), **keys} for block, keys in found.blocks.items()}
    return _with_tables(_Reading(platform, running, declared, found, file, cluster, ours), document)


@dataclass(frozen=True)
class _Reading:
    platform: Platform
    running: RunningConnector
    declared: Sequence[BaseSource]
    found: FoundAtSource
    file: Path
    cluster: str
    ours: bool

    @property
    def core_side(self) -> CoreSide:
        """The cluster of its topics, as its mirror names it."""
        several = len(settings.core_clusters("BOOTSTRAP")) > 1
        return CoreSide(self.cluster, self.platform.core_kafka(self.cluster).bootstrap, is_one_of_many=several)


def _with_tables(reading: _Reading, document: dict[str, Any]) -> Adoption:
    running, core = reading.running, reading.platform.core_kafka(reading.cluster)
    draft = _validate({**document, "tables": [_NO_TABLE]})
    derived = {table: names.topic_of(draft, table) for table in reading.found.tables}
    topics = {table: final_topic(running, name) for table, name in derived.items()}
    states = core.states(list(topics.values()))
    configs = core.topic_configs(list(states)) if states else {}
    lake, lake_connect = reading.platform.lake_kafka(), reading.platform.lake_connect()
    mirror = find_mirror(lake_connect, lake, reading.core_side, sorted(topics.values()), reading.declared)
    document["capture"] |= _form_of_records(running, core, states.values(), document["source"])
    document["topics"] = topic_settings(states, configs)
    if mirror is not None:
        document["mirror"] = mirror.block()
        document["topics"] |= {"replication": mirror.replication} if mirror.replication != "default" else {}
    document["tables"] = table_entries(running, reading.found.tables, topics, derived)
    plain = _validate(document)
    of_mirror = mirror_differences(mirror, lake_connect, plain) if mirror else []
    if not reading.ours:
        document["capture"]["settings"] = other_settings(running, plain)
        if mirror is not None:
            document["mirror"]["settings"] = mirror.other_settings(plain)
    source = _validate(document)
    refuse_unequal(running, mirror, source, ours=reading.ours)
    _refuse_collision(running.name, [*reading.declared, source])
    return Adoption(
        running=running,
        source=source,
        document=_without_defaults(document, source),
        file=reading.file,
        found=reading.found,
        mirror=mirror,
        topics={name: states.get(name) for name in sorted(topics.values())},
        copies=lake.states([names.lake_topic(source, table) for table in source.tables]),
        differences=capture_differences(running, plain),
        mirror_differences=of_mirror,
        notes=[
            *_notes(running, mirror, source),
            *reading.found.notes,
            *topic_notes(source, reading.found.keyless, states, configs),
        ],
    )


def _refuse_collision(name: str, sources: Sequence[BaseSource]) -> None:
    for collision in find_collisions(sources):
        raise AdoptionError(f"connector {name}: {collision.message}; then cdc adopt {name}")


def _form_of_records(running: RunningConnector, core: KafkaCluster, states: Iterable[TopicState], own: str) -> dict[str, Any]:
    registry = registry_block(running, own)
    return {**registry, "envelope": envelope_of(core, states, running.name, in_avro=bool(registry))}


def write(adoption: Adoption) -> None:
    """Put the entry into the registry's folder.

    Raises:
        AdoptionError: a difference cannot stay as it is; nothing is written.
        RegistryError: the folder would not be valid with it; nothing is left of it.
    """
    if adoption.wrong and _keeps(adoption):
        told = "; ".join(f"{each.setting} is {each.theirs}, ours {each.ours}: {each.meaning}" for each in adoption.wrong)
        name = adoption.running.name
        raise AdoptionError(
            f"connector {name} cannot stay as it is, and nothing was written: {told}. Change it there, or give "
            f"cdc adopt {name} --ours and then cdc apply, which changes and restarts it"
        )
    write_entry(adoption.file, adoption.running, adoption.document)


def _keeps(adoption: Adoption) -> bool:
    return bool(adoption.source.capture.settings or adoption.source.mirror.settings)


def _model(kind: str) -> type[CapturedSource]:
    found: type[CapturedSource] = KINDS[kind].source.load()
    return found


def _validate(document: Mapping[str, Any]) -> CapturedSource:
    from pydantic import ValidationError

    try:
        return _model(str(document["database"]["kind"])).model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise AdoptionError(
            f"no entry can be made of the connector: {place}: {first['msg']}; write it by hand (docs/how-to/adopt.md)"
        ) from None


def _source_name(running: RunningConnector, given: str) -> str:
    prefix = running.config.get("topic.prefix", "")
    own = given or re.sub(r"[^a-z0-9_]+", "_", prefix.lower()).strip("_")[:40]
    if not re.fullmatch(SOURCE_NAME, own):
        raise AdoptionError(
            f"{own or prefix!r} is no name of a source (a-z, 0-9 and _, a letter first): cdc adopt {running.name} --source NAME"
        )
    return own


def _first_document(running: RunningConnector, kind: AdoptionKind, own: str) -> dict[str, Any]:
    config = running.config
    capture: dict[str, Any] = {
        "connector": running.name,
        "topic_prefix": config.get("topic.prefix"),
        **kind.capture(running),
        # Of a kind whose signal table is declared elsewhere, the kind itself tells it.
        "signals": config.get("signal.data.collection") if "signals" in running.kind.settings else None,
        "notifications": config.get("notification.sink.topic.name"),
    }
    if (mode := running.setting("snapshot.mode")) in _SNAPSHOTS:
        capture["snapshot"] = mode
    if (beat := running.setting("heartbeat.interval.ms") or "0").isdigit() and int(beat):
        capture["heartbeat"] = f"{beat}ms"
    password = secret_reference(own, config.get("database.password", ""))
    return {
        "source": own,
        "database": kind.database(running, password),
        "capture": {key: value for key, value in capture.items() if value is not None},
    }


def _without_defaults(document: Mapping[str, Any], source: CapturedSource) -> dict[str, Any]:
    """The document without names that would be these anyhow."""
    bare = source.model_copy(update={"capture": type(source.capture)(), "mirror": type(source.mirror)()})
    derived = {
        "connector": names.connector_name(bare),
        "topic_prefix": names.topic_prefix(bare),
        "slot": names.slot_name(bare),
        "publication": names.publication_name(bare),
        "notifications": names.notification_topic(bare),
        "envelope": "debezium-json",
        "converter": "apicurio",
        "snapshot": "initial",
        "heartbeat": "10000ms",
        "settings": {},
    }
    of_mirror = {"connector": names.mirror_connector_name(bare), "alias": source.cluster, "settings": {}}
    found = {**document, "capture": {k: v for k, v in document["capture"].items() if derived.get(k) != v}}
    if "mirror" in document:
        found["mirror"] = {key: value for key, value in document["mirror"].items() if of_mirror.get(key) != value}
    return {key: value for key, value in found.items() if value != {}}


def _notes(running: RunningConnector, mirror: FoundMirror | None, source: CapturedSource) -> list[str]:
    always = [*experimental_warnings([source]).values(), *null_notes(running)]
    if mirror is not None:
        return always
    return [
        *always,
        f"no mirror carries its topics to the lake's cluster: cdc apply {source.name} makes "
        f"{names.mirror_connector_name(source)}",
    ]


def _offsets(state: TopicState | None) -> dict[str, list[int]] | None:
    return None if state is None else {str(p): list(ends) for p, ends in sorted(state.ranges.items())}
