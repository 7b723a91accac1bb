"""What a source needs besides its tables, in its backup: connectors, offsets, topics, its registry file, its schemas;
without a secret.

Below the store's prefix; no table's folder has a hyphen: `<source>/platform-state/sections/<sha256>.json` (a section of what was
found, under the digest of its bytes; written first), `<source>/platform-state/log/<number>.json` (an entry: the digests of
its sections and of the entry before; written last), `<source>/platform-state/newest` (where to look for the newest entry, a
cache). An object is written once by a conditional put, so that two writers make one chain. What has not changed is not
written: an entry names the section that is there.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cdc_assets.backup.documents import canonical_json, digest, no_document, read_document, write_document
from cdc_assets.backup.manifest import KeptManifests, NamedObject, NewestName, sign
from cdc_assets.capture.connectors.declared_connectors import DeclaredConnector, declared_connectors
from cdc_assets.clients.connect import ConnectClient
from cdc_assets.clients.connector_states import mask_config, mask_logins
from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets.clients.object_store import ObjectStore, StoredObject
from cdc_assets.clients.schema_subjects import SchemaSubjects, Version
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import BackupError, RegistryError, StoreError
from cdc_assets.registry.loader import load_source, registry_files
from cdc_assets.registry.source_declaration import BaseSource

KIND = "platform entry"
FOLDER = "platform-state"
"""Below a source's prefix, beside its tables: none of their names has a hyphen."""
_SECTIONS = {"registry", "connectors", "offsets", "topics", "subjects", "kept_log", "server", "given_up"}


@dataclass(frozen=True)
class PlatformState:
    """What was found: the sections by name, each a document of JSON.

    `registry` is the text of the source's file. `connectors` has each one's cluster, role and config, with references in place of
    secrets, `offsets` what Connect tells of each. `topics` has by cluster each topic's id, partitions and own settings.
    `subjects` are the schemas of tables in Avro: by subject its versions. `kept_log`: up to which place of the source's log the
    tables' backups have everything, while the server keeps its log from there (`backup.keep_log`). `server`: which one the source
    was at the last look, where that can be told. `given_up`: by table the records that a person has taken out of quarantine for
    good.
    """

    registry: str
    connectors: Mapping[str, Any]
    offsets: Mapping[str, Any]
    topics: Mapping[str, Mapping[str, Any]]
    subjects: Mapping[str, Any]
    kept_log: Mapping[str, Any] = field(default_factory=dict)
    server: Mapping[str, Any] = field(default_factory=dict)
    given_up: Mapping[str, Any] = field(default_factory=dict)

    def documents(self) -> dict[str, bytes]:
        """Each section's bytes: equal sections have equal bytes."""
        return {name: canonical_json(document) for name, document in asdict(self).items()}


@dataclass(frozen=True)
class PlatformEntry:
    """One look at the platform (`at`, UTC); `previous` is the digest of the entry before it, empty for the first."""

    number: int
    at: str
    previous: str
    sections: Mapping[str, str]

    def to_bytes(self) -> bytes:
        """As canonical JSON, always alike."""
        return write_document(KIND, asdict(self))

    @classmethod
    def from_bytes(cls, data: bytes, *, key: str) -> PlatformEntry:
        """Read an entry. Raises BackupError: naming the object, when it is no entry of this format."""
        fields = read_document(KIND, data, key=key)
        try:
            entry = cls(**fields)
            is_whole = set(entry.sections) == _SECTIONS and all(
                re.fullmatch(r"[0-9a-f]{64}", sha256) for sha256 in entry.sections.values()
            )
        except (TypeError, AttributeError) as error:
            raise no_document(KIND, key, error) from error
        if not is_whole or not isinstance(entry.number, int):
            raise BackupError(f"{key} is no {KIND} of a backup")
        return entry


def log_prefix(source: str) -> str:
    """What the keys of entries begin with."""
    return f"{_prefix(source)}log/"


def entry_key(source: str, number: int) -> str:
    """Sorts in the order of the numbers."""
    return f"{log_prefix(source)}{number:012d}.json"


def sections_prefix(source: str) -> str:
    """What the keys of sections begin with."""
    return f"{_prefix(source)}sections/"


def section_key(source: str, sha256: str) -> str:
    """The section whose bytes have this digest."""
    return f"{sections_prefix(source)}{sha256}.json"


def newest_entry(source: str) -> NewestName:
    """What names the newest entry, or one a little older."""
    return NewestName(f"{_prefix(source)}newest", log_prefix(source), is_entry_name, "entry")


def is_entry_name(name: str) -> bool:
    """Whether a file name is that of an entry: `000000000001.json`."""
    return re.fullmatch(r"[0-9]{12}\.json", name) is not None


def _prefix(source: str) -> str:
    return f"{source}/{FOLDER}/"


def write_state(store: ObjectStore, source: str, state: PlatformState) -> PlatformEntry | None:
    """Parts that are new, then the entry; None where the newest entry says the same.

    Raises:
        StoreError: the store does not take it.
        BackupError: the newest entry cannot be read.
    """
    documents = state.documents()
    sections = {name: digest(data) for name, data in documents.items()}
    while True:
        named = newest_entry(source).read(store)
        newest = _newest(store, source, named)
        number, previous = (newest[0].number + 1, digest(newest[1])) if newest else (1, "")
        if newest is not None and newest[0].sections == sections:
            _name(store, source, newest, named)
            return None
        for name, data in documents.items():
            if newest is None or newest[0].sections.get(name) != sections[name]:
                store.put_if_absent(section_key(source, sections[name]), data)
        at = dt.datetime.now(dt.timezone.utc).isoformat(timespec="milliseconds")
        entry = PlatformEntry(number, at, previous, sections)
        if store.put_if_absent(entry_key(source, number), entry.to_bytes()):
            newest_entry(source).write(store, entry_key(source, number), digest(entry.to_bytes()))
            return entry
        # Another writer was first, or this very call, whose answer got lost: what is there now decides.


def newest_state(store: ObjectStore, source: str) -> tuple[PlatformEntry, PlatformState] | None:
    """The newest entry with its sections, each as its digest says; None where the backup has none.

    Raises:
        BackupError: an object is another one than it was written as; names it.
        StoreError: the store cannot be asked, or lacks a section.
    """
    newest = _newest(store, source, newest_entry(source).read(store))
    if newest is None:
        return None
    read = {name: _section(store, source, sha256) for name, sha256 in newest[0].sections.items()}
    return newest[0], PlatformState(**read)


def newest_section(store: ObjectStore, source: str, name: str) -> Any:
    """One section of the newest entry, as its digest says; empty where the backup has no entry, or that one lacks it.

    Raises:
        BackupError: an object is another one than it was written as; names it.
        StoreError: the store cannot be asked, or lacks the section.
    """
    newest = _newest(store, source, newest_entry(source).read(store))
    sha256 = newest[0].sections.get(name) if newest else None
    return _section(store, source, sha256) if sha256 else {}


def registry_files_in_store(store: ObjectStore, source: str) -> tuple[str, str]:
    """The text of the source's file in the newest entry, and in the last one before that had another; empty: there is none.

    Raises:
        BackupError: an object is another one than it was written as, or not written by who has the secret; names it.
        StoreError: the store cannot be asked, or lacks a section.
    """
    folder, name = log_prefix(source), newest_entry(source)
    keys, named = sorted(_entries(store, folder), reverse=True), name.read(store)
    if not keys:
        return "", ""
    forged = [*name.forgeries(named, keys[0])] if named else []
    if forged or (named is None and sign(name.key, "")):
        reason = forged[0] if forged else f"{name.key} names no entry, so none is signed"
        raise BackupError(f"{reason}; look at {name.key} and at the entries, or take the registry's files from git")
    digests = dict[str, None]()
    for key in keys:
        digests[PlatformEntry.from_bytes(store.get(key), key=key).sections["registry"]] = None
        if len(digests) == 2:
            break
    newest, before = [str(_section(store, source, sha256)) for sha256 in digests] + [""] * (2 - len(digests))
    return newest, before


def _section(store: ObjectStore, source: str, sha256: str) -> Any:
    key = section_key(source, sha256)
    data = store.get(key)
    if digest(data) != sha256:
        raise BackupError(f"{key} has another content than its name says: sha256 {digest(data)}")
    return json.loads(data)


def _name(store: ObjectStore, source: str, newest: tuple[PlatformEntry, bytes], named: NamedObject | None) -> None:
    # Nothing names the newest entry where whoever wrote it was killed before.
    key = entry_key(source, newest[0].number)
    if named is None or named.key < key:
        newest_entry(source).write(store, key, digest(newest[1]))


def _newest(store: ObjectStore, source: str, named: NamedObject | None) -> tuple[PlatformEntry, bytes] | None:
    folder = log_prefix(source)
    key = max(_entries(store, folder, after=named.key[:-1]), default=None) if named else None
    key = key or max(_entries(store, folder), default=None)
    if key is None:
        return None
    data = store.get(key)
    return PlatformEntry.from_bytes(data, key=key), data


def _entries(store: ObjectStore, folder: str, *, after: str = "") -> list[str]:
    return [item.key for item in store.list(folder, after=after) if is_entry_name(item.key.removeprefix(folder))]


def verify_state(store: ObjectStore, source: str, *, deep: bool = False, kept: Path | None = None) -> tuple[str, ...]:
    """What is wrong; empty: nothing. The newest entry's sections are read, with `deep` those of all.

    Raises:
        StoreError: the store cannot be asked.
    """
    # Parts last: whoever writes meanwhile has written them before the entry.
    logged = {item.key: item for item in store.list(log_prefix(source))}
    sections = {item.key for item in store.list(sections_prefix(source))}
    return tuple(_differences(store, source, logged, sections, KeptManifests(store, None if deep else kept), deep))


def _differences(
    store: ObjectStore, source: str, logged: dict[str, StoredObject], sections: set[str], copies: KeptManifests, deep: bool
) -> Iterator[str]:
    previous, read, expected, digests = "", set[str](), 1, dict[str, str]()
    section_name = re.compile(re.escape(sections_prefix(source)) + r"[0-9a-f]{64}\.json")
    foreign = sorted(key for key in sections if not section_name.fullmatch(key))
    yield from (f"{key} is no section of a platform log" for key in foreign)
    for key in sorted(logged):
        if not is_entry_name(key.removeprefix(log_prefix(source))):
            yield f"{key} is no entry of a platform log"
            continue
        try:
            data = copies.read(logged[key])
            entry = PlatformEntry.from_bytes(data, key=key)
        except (BackupError, StoreError) as error:
            yield str(error)
            previous, expected, digests[key] = "unknown", expected + 1, ""
            continue
        digests[key] = digest(data)
        if entry_key(source, entry.number) != key:
            yield f"{key} holds entry {entry.number}"
        elif entry.number != expected:
            yield f"{entry_key(source, expected)} is missing: {key} is the next one"
        elif entry.previous != previous and previous != "unknown":
            yield f"{key} follows an entry with sha256 {entry.previous}, the one before it has {previous}"
        previous, expected = digests[key], entry.number + 1
        keys_named = {section_key(source, sha256): sha256 for sha256 in entry.sections.values()}
        yield from (f"{missing} is missing: {key} names it" for missing in sorted(keys_named.keys() - sections - read))
        if deep or key == max(logged):
            yield from _find_altered(store, {key: sha for key, sha in keys_named.items() if key in sections and key not in read})
            read |= keys_named.keys()
        read |= keys_named.keys() - sections
    newest = newest_entry(source)
    yield from newest.differences(store, digests, lambda: store.get(newest.key))


def _find_altered(store: ObjectStore, wanted: dict[str, str]) -> Iterator[str]:
    for key, sha256 in sorted(wanted.items()):
        try:
            content_digest = digest(store.get(key))
        except StoreError as error:
            yield f"{key} cannot be read: {error}"
            continue
        if content_digest != sha256:
            yield f"{key} has another content than its name says: sha256 {content_digest}"


def find_subjects(source: BaseSource) -> dict[str, list[Version]]:
    """The versions of each subject that the schema registry has; subjects without any are left out.

    Raises:
        ServiceError: the registry does not answer.
    """
    subjects = {subject: SchemaSubjects(registry).versions(subject) for subject, registry in registries_of(source).items()}
    return {subject: versions for subject, versions in subjects.items() if versions}


def registries_of(source: BaseSource) -> dict[str, str]:
    """By subject the registry's address: keys and values have one each, named as Confluent's converters name them."""
    forms = {names.topic(source, table): source.record_form(table)["schema_registry"] for table in source.tables}
    return {f"{topic}-{side}": registry for topic, registry in forms.items() if registry for side in ("key", "value")}


_SECONDS = 10.0


def look_at_platform(chain: Chain[BaseSource], **known: Mapping[str, Any]) -> PlatformState:
    """Offsets are asked for first: what the topics hold by then holds all that was read before.

    `known`: the other sections of PlatformState, which others remember.

    Raises:
        CdcAssetsError: Connect, a cluster or a schema registry cannot be asked.
    """
    declared = declared_connectors([chain.source])
    # The data's backup is made by then, and its run is not to wait for a worker that is away.
    at = {cluster: chain.platform.connect(cluster).within(_SECONDS) for cluster in {connector.cluster for connector in declared}}
    offsets = {connector.name: at[connector.cluster].offsets(connector.name) for connector in declared}
    connectors = {connector.name: _config(at[connector.cluster], connector) for connector in declared}
    topics = {
        "lake": _topics(chain.platform.raw_lake_kafka(), [names.lake_topic(chain.source, table) for table in chain.source.tables])
    }
    if names.is_mirrored(chain.source):
        topics["core"] = _topics(
            chain.platform.core_kafka(chain.source.cluster), [names.topic(chain.source, table) for table in chain.source.tables]
        )
    return PlatformState(_registry_text(chain.source), connectors, offsets, topics, find_subjects(chain.source), **known)


def _config(connect: ConnectClient, declared: DeclaredConnector) -> dict[str, Any]:
    config = connect.config(declared.name) or declared.config
    hidden = mask_config(config, connect.password_keys(config.get("connector.class", "")))
    return {"cluster": declared.cluster, "role": declared.role, "config": hidden}


def _topics(cluster: KafkaCluster, topics: list[str]) -> dict[str, Any]:
    states = cluster.states(topics)
    own = cluster.own_settings(list(states))
    return {
        name: {"id": state.topic_id, "partitions": len(state.ranges), "settings": own[name]} for name, state in states.items()
    }


def _registry_text(source: BaseSource) -> str:
    for file in registry_files(settings.sources_folder()):
        try:
            if load_source(file).name == source.name:
                return mask_logins(file.read_text(encoding="utf-8"))
        except RegistryError:
            continue
    return ""
