"""Takes over a Debezium connector that others have made and that runs: reads it and all that belongs to it, makes the
registry entry, and writes that.

Connect is only asked, never changed. The entry is proven before it is written: rendered from it, the connector's config and
its mirror's are what Connect has.

Of its topics are read the form of their last records, the schema registry of those in Avro, and settings that stay theirs.
Converters may be the worker's own, so the form is read from records where the connector names none.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from cdc_assets.capture.adoption.running_connector import (
    AdoptionKind,
    FoundAtSource,
    RunningConnector,
    final_topic,
    read_connector,
    secret_reference,
    table_entries,
)
from cdc_assets.capture.adoption.setting_differences import (
    CoreSide,
    FoundMirror,
    SettingDifference,
    capture_differences,
    find_mirror,
    mirror_differences,
    other_settings,
    refuse_unequal,
)
from cdc_assets.capture.connectors.record_converters import CONFLUENT
from cdc_assets.capture.kind_capture import CAPTURE
from cdc_assets.clients.kafka import KafkaCluster, Record, TopicState
from cdc_assets.clients.platform import Platform
from cdc_assets.registry import names, settings
from cdc_assets.registry.durable_file import replace_file
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.field_types import SOURCE_NAME, TableId
from cdc_assets.registry.kinds import KINDS, experimental_warnings
from cdc_assets.registry.loader import load_sources, registry_files
from cdc_assets.registry.name_conflicts import find_collisions
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource, source_model
from cdc_assets.stack.own_converters import NULL_KEEPING_AVRO

_MODE = 0o644


def entry_text(document: Mapping[str, Any]) -> str:
    """The entry in YAML, in the order in which people read it."""
    yaml = YAML()
    yaml.width, yaml.default_flow_style = 4096, False
    yaml.representer.add_representer(type(None), lambda dump, _: dump.represent_scalar("tag:yaml.org,2002:null", "null"))
    yaml.indent(mapping=2, sequence=4, offset=2)
    order = ("source", "cluster", "database", "capture", "topics", "mirror", "tables")
    stream = io.StringIO()
    # What the order does not name comes behind it: nothing of an entry is left out.
    yaml.dump({key: _quote_texts(document[key]) for key in (*order, *document) if key in document}, stream)
    return stream.getvalue()


def write_entry(file: Path, running: RunningConnector, document: Mapping[str, Any]) -> None:
    """Write the file, which is new, and read the folder with it.
    Raises RefusalError: it is there; RegistryError: the folder is not valid with it; the file is taken back."""
    if file.exists():
        raise RefusalError(f"{file} is there already; cdc adopt {running.name} --source NAME")
    head = f"# Connector {running.name} at {running.url} runs as it did before: cdc diff {document['source']}\n"
    replace_file(file, (head + entry_text(document)).encode())
    file.chmod(_MODE)
    try:
        load_sources(file.parent)
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def _quote_texts(value: Any) -> Any:
    """Texts that YAML would read as something else, or that hold a `:`, in quotes."""
    if isinstance(value, Mapping):
        return {key: _quote_texts(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_quote_texts(item) for item in value]
    return DoubleQuotedScalarString(value) if isinstance(value, str) and not value.replace("_", "").isalnum() else value


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
        return [difference for difference in (*self.differences, *self.mirror_differences) if difference.weight == "wrong"]

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
            "differences": [difference.to_json() for difference in self.differences],
            "mirror_differences": [difference.to_json() for difference in self.mirror_differences],
            "notes": list(self.notes),
            "entry": entry_text(self.document),
        }


def look_at_connector(
    platform: Platform, name: str, folder: Path, *, source: str = "", cluster: str = names.CORE, ours: bool = False
) -> Adoption:
    """The adoption of connector `name` beside a core cluster, as `source` (default: by its topic prefix); nothing is written.

    `ours`: the entry declares none of their settings, so that the next `cdc apply` brings ours.

    Raises RefusalError: it cannot be taken over, saying why; other CdcAssetsError: who could not be asked.
    """
    declared = load_sources(folder) if not folder.is_dir() or registry_files(folder) else ()
    running = read_connector(platform.core_connect(cluster), name, declared)
    own = _source_name(running, source)
    file = folder / f"{own}.yaml"
    if file.exists() or own in {other.name for other in declared}:
        raise RefusalError(
            f"source {own} is declared already in {folder}: give this one another name: cdc adopt {name} --source NAME"
        )
    adoption = CAPTURE[running.kind.name].adoption
    assert adoption is not None, running.kind.name
    kind = adoption()
    document = _first_document(running, kind, own) | ({} if cluster == names.CORE else {"cluster": cluster})
    at_source = kind.look(running, _validate({**document, "tables": [_NO_TABLE]}))
    document |= {block: {**document.get(block, {}), **keys} for block, keys in at_source.blocks.items()}
    return _with_tables(_Reading(platform, running, declared, at_source, file, cluster, ours), document)


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
    document["capture"] |= (registry := registry_block(running, document["source"]))
    document["capture"]["envelope"] = envelope_of(core, states.values(), running.name, in_avro=bool(registry))
    document["topics"] = topic_settings(states, configs)
    if mirror is not None:
        document["mirror"] = mirror.block()
        document["topics"] |= {"replication": mirror.replication} if mirror.replication != "default" else {}
    document["tables"] = table_entries(running, reading.found.tables, topics, derived)
    plain = _validate(document)
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
        mirror_differences=mirror_differences(mirror, lake_connect, plain) if mirror else [],
        notes=[
            *_notes(running, mirror, source),
            *reading.found.notes,
            *topic_notes(source, reading.found.keyless, states, configs),
        ],
    )


def write(adoption: Adoption) -> None:
    """Put the entry into the registry's folder.
    Raises RefusalError: a difference cannot stay as it is; nothing is written; RegistryError: the folder would not be valid with
    it; nothing is left of it."""
    if adoption.wrong and (adoption.source.capture.settings or adoption.source.mirror.settings):
        differing = "; ".join(
            f"{difference.setting} is {difference.theirs}, ours {difference.ours}: {difference.meaning}"
            for difference in adoption.wrong
        )
        name = adoption.running.name
        raise RefusalError(
            f"connector {name} cannot stay as it is, and nothing was written: {differing}. Change it there, or give "
            f"cdc adopt {name} --ours and then cdc apply, which changes and restarts it"
        )
    write_entry(adoption.file, adoption.running, adoption.document)


def _validate(document: Mapping[str, Any]) -> CapturedSource:
    from pydantic import ValidationError

    try:
        return source_model(KINDS[document["database"]["kind"]]).model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        raise RefusalError(
            f"no entry can be made of the connector: {key}: {first['msg']}; write it by hand (docs/how-to/adopt.md)"
        ) from None


def _source_name(running: RunningConnector, chosen: str) -> str:
    prefix = running.config.get("topic.prefix", "")
    own = chosen or re.sub(r"[^a-z0-9_]+", "_", prefix.lower()).strip("_")[:40]
    if not re.fullmatch(SOURCE_NAME, own):
        raise RefusalError(
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
    bare_document = {**document, "capture": {k: v for k, v in document["capture"].items() if derived.get(k) != v}}
    if "mirror" in document:
        bare_document["mirror"] = {key: value for key, value in document["mirror"].items() if of_mirror.get(key) != value}
    return {key: value for key, value in bare_document.items() if value != {}}


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


# Markers of transactions are offsets too.
_LAST = 40
_AVRO = 0


def envelope_of(core: KafkaCluster, states: Iterable[TopicState], connector: str, *, in_avro: bool = False) -> str:
    """`debezium-json` or `debezium-json-schema`, as the topics' last records have it; the first where there is none.

    `in_avro`: its converters are known to write Avro, so that is what it should be: `debezium-avro`.

    Raises RefusalError: they are in a form that a captured source cannot have, or in two.
    """
    topics_by_form: dict[str, str] = {}
    for state in states:
        ranges = {p: (max(begin, end - _LAST), end) for p, (begin, end) in state.ranges.items() if end > begin}
        for record in core.records(state.name, ranges) if ranges else ():
            if form := _form(record):
                topics_by_form.setdefault(form, state.name)
    if len(topics_by_form) > 1:
        forms = ", ".join(f"{form} in {topic}" for form, topic in topics_by_form.items())
        raise RefusalError(f"the records of connector {connector} have two forms ({forms}), and a source has one; cdc peek TOPIC")
    form, topic = next(iter(topics_by_form.items()), ("Avro" if in_avro else "debezium-json", ""))
    if form == "Avro" and in_avro:
        return "debezium-avro"
    if form not in ("debezium-json", "debezium-json-schema"):
        raise RefusalError(
            f"topic {topic} of connector {connector} holds records in {form}, and a captured source has Debezium's envelope in "
            "JSON; declare such topics as a source of kind topics (docs/how-to/add-a-source.md), or let the connector write JSON"
        )
    return form


def _form(record: Record) -> str:
    """Empty for a tombstone, which has none."""
    if not record.value:
        return ""
    if record.value[0] == _AVRO:
        return "Avro"
    try:
        event = json.loads(record.value)
    except ValueError:
        return "another format than JSON"
    if not isinstance(event, dict):
        return "JSON without fields"
    if set(event) == {"schema", "payload"} and isinstance(event["payload"], dict):
        return "debezium-json-schema" if "op" in event["payload"] else "flattened rows with their schema"
    return "debezium-json" if "op" in event and "source" in event else "flattened rows"


_APICURIO = (NULL_KEEPING_AVRO.converter, *NULL_KEEPING_AVRO.bases)
_OWN_API = re.compile(r"(https?://.+)/apis/registry/v\d+/?")
_FLAT = "ExtractNewRecordState"
_BY_HAND = "declare its topics as a source of kind topics (docs/how-to/add-a-source.md)"
# What makes a record begin with a zero byte and the id, in four bytes, by which Confluent's API knows the schema.
_FRAME = {
    "apicurio.registry.as-confluent": ("true", "false"),
    "apicurio.registry.use-id": ("contentId", "globalId"),
    "apicurio.registry.headers.enabled": ("false", "false"),
}


def registry_block(running: RunningConnector, source: str) -> dict[str, Any]:
    """What the entry has to declare under `capture`; empty where the connector's config names no converter to Avro.
    Raises RefusalError: its records could not be read here."""
    converter = running.config.get("value.converter", "")
    if converter not in (*_APICURIO, CONFLUENT):
        return {}
    if running.config.get("key.converter") != converter:
        raise RefusalError(f"connector {running.name} writes keys otherwise than rows (key.converter): {_BY_HAND}")
    if any(key.endswith(".type") and value.endswith(_FLAT) for key, value in running.config.items()):
        raise RefusalError(f"connector {running.name} writes flattened rows ({_FLAT}) in Avro: {_BY_HAND}")
    if converter == CONFLUENT:
        return {"converter": "confluent", "schema_registry": _confluent(running, source)}
    return {"converter": "apicurio", "schema_registry": _apicurio(running, source)}


def null_notes(running: RunningConnector) -> list[str]:
    """That their converter writes something else than the row has."""
    config, key = running.config, "value.converter"
    is_null_kept = config.get(key) in NULL_KEEPING_AVRO.bases or (
        config.get(key) == CONFLUENT and config.get(f"{key}.ignore.default.for.nullables", "false") != "true"
    )
    if not is_null_kept:
        return []
    return [
        "its converter writes the default of a nullable column in place of a NULL, and silver is not the source there: "
        f"cdc adopt {running.name} --ours and cdc apply bring one that does not (docs/how-to/avro.md)"
    ]


def _of(running: RunningConnector, name: str) -> str:
    return running.config.get(f"value.converter.{name}", "")


def _apicurio(running: RunningConnector, source: str) -> dict[str, Any]:
    for name, (expected, default) in _FRAME.items():
        if (_of(running, name) or default).lower() != expected.lower():
            raise RefusalError(
                f"connector {running.name}: value.converter.{name} is {_of(running, name) or 'not set'}: its records do not "
                f"begin with a schema's id as Confluent's do, so they are not read here; it would have to be {expected}"
            )
    url = _OWN_API.fullmatch(_of(running, "apicurio.registry.url"))
    if url is None:
        registry_url = _of(running, "apicurio.registry.url") or "not set"
        raise RefusalError(
            f"connector {running.name}: value.converter.apicurio.registry.url is {registry_url}, and not Apicurio's API"
        )
    block: dict[str, Any] = {"url": f"{url[1]}/apis/ccompat/v7"}
    if user := _of(running, "apicurio.auth.username"):
        block |= {"user": user, "password": secret_reference(f"{source}_registry", _of(running, "apicurio.auth.password"))}
    return block


def _confluent(running: RunningConnector, source: str) -> dict[str, Any]:
    block: dict[str, Any] = {"url": _of(running, "schema.registry.url").split(",")[0]}
    login = _of(running, "basic.auth.user.info")
    if not login:
        return block
    user, colon, password = login.partition(":")
    if not colon or user.startswith("${"):
        raise RefusalError(
            f"connector {running.name}: value.converter.basic.auth.user.info is one reference for user and password, and an "
            "entry has two; write the entry by hand (docs/how-to/adopt.md)"
        )
    return block | {"user": user, "password": secret_reference(f"{source}_registry", password)}


_FOR_EVER = "36500d"


def topic_settings(states: Mapping[str, TopicState], configs: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Partitions and retention as the topics have them: materializing topic/* must not shorten what they keep."""
    if not states:
        return {}
    kept = [int(config["retention.ms"]) for config in configs.values()]
    retention = _FOR_EVER if min(kept) < 0 else f"{max(kept)}ms"
    block = {"partitions": max(len(state.ranges) for state in states.values()), "retention": retention}
    return {key: value for key, value in block.items() if value not in (1, "604800000ms")}


def topic_notes(
    source: CapturedSource,
    keyless: Sequence[TableId],
    states: Mapping[str, TopicState],
    configs: Mapping[str, Mapping[str, str]],
) -> list[str]:
    """What is lacking in the topics, and what would be changed of them."""
    notes = []
    for table in source.tables:
        topic = names.topic(source, table)
        again = f"cdc onboard {source.name} '{table.name}' --again --route temporary reads the table once more"
        state = states.get(topic)
        if state is None:
            notes.append(f"{table.name}: there is no topic {topic} yet; it comes with the first record")
        elif any(begin for begin, _ in state.ranges.values()):
            notes.append(f"{table.name}: topic {topic} has lost its oldest records, so rows may lack in the lake: {again}")
        if "compact" in configs.get(topic, {}).get("cleanup.policy", ""):
            notes.append(
                f"{table.name}: topic {topic} is compacted, so its history is gone; cleanup.policy=delete, which bronze "
                f"needs, comes with materializing topic/{source.name}"
            )
        if table.id in keyless and not table.keys:
            notes.append(f"{table.name} has no primary key: declare its keys in the entry (docs/reference/registry.md)")
    return notes


def _refuse_collision(name: str, sources: Sequence[BaseSource]) -> None:
    for collision in find_collisions(sources):
        raise RefusalError(f"connector {name}: {collision.message}; then cdc adopt {name}")
