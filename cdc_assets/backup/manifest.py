"""The documents of a batch: its plan, written before its objects, its manifest, written after them, and what names the
newest manifest of a table.

The newest is named by name and SHA-256, signed where the secret `backup_key` is set. Manifests that were read before are
kept on this machine: a table that is backed up every five minutes has 100,000 a year.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cdc_assets.backup.documents import digest, no_document, read_document, write_document
from cdc_assets.backup.object_layout import (
    ObjectLayout,
    OffsetRanges,
    batch_name,
    epoch_key,
    is_batch_name,
    manifests_prefix,
    newest_key,
    plans_prefix,
)
from cdc_assets.clients.object_store import MissingObjectError, ObjectStore, StoredObject
from cdc_assets.registry import settings
from cdc_assets.registry.durable_file import replace_bytes
from cdc_assets.registry.errors import BackupError, MissingSecretError, StoreError
from cdc_assets.registry.references import SecretRef
from spark.table.topic_commits import CommittedTopic

SECRET = "backup_key"
UNSIGNED = "not signed"
SIGNED = f"signed by {SECRET}"
NOT_LOOKED_AT = f"signed; no secret {SECRET} here to compare it with"


def sign(place: str, text: str) -> str:
    """The keyed digest of what an object at `place` says, so that it counts nowhere else; empty without the secret.

    Each manifest and each entry names the digest of the one before it, and its objects by their digests. So the head's
    signature covers all of them. Who may write the bucket and lacks the secret cannot make a head of his own; he can put back
    an older one. https://www.rfc-editor.org/rfc/rfc2104 (HMAC, here with SHA-256)
    """
    key = _key()
    return hmac.new(key, f"{place}\n{text}".encode(), hashlib.sha256).hexdigest() if key else ""


def describe(signature: str) -> str:
    """A signature in words for people: not signed, signed by the secret, or signed without a secret here to compare it with."""
    if not signature:
        return UNSIGNED
    return SIGNED if _key() else NOT_LOOKED_AT


def find_forgery(place: str, text: str, signature: str) -> str:
    """Why it was not written by who has the secret; empty: it was, or there is no secret here."""
    expected = sign(place, text)
    if not expected:
        return ""
    if not signature:
        return f"{place} is not signed, and secret {SECRET} is here: it is of before the secret, or somebody else wrote it"
    if not hmac.compare_digest(expected, signature):
        return f"{place} has another signature than secret {SECRET} makes: somebody else wrote it, or the secret is another one"
    return ""


def _key() -> bytes:
    try:
        return settings.secret(SecretRef(secret=SECRET)).encode()
    except MissingSecretError:
        return b""


_FACTS = ("snapshots", "openings", "schema_ids")
_OWN_FIELDS = ("records", "by_op", "objects", "positions", "epoch_records", "records_total", "previous")


@dataclass(frozen=True)
class BatchPlan:
    """Which records a batch holds: `ranges` are its offsets `{partition: (from, to)}`.

    `complete` says that it ends where bronze ended at `bronze_version`. `facts` are those of its topic there that its rows do not
    tell (spark.table.topic_commits: snapshots, openings, schema_ids); empty for an epoch that had ended. `bronze_id` is the
    table's: of one that was restored the versions begin again.

    The plan fixes the offsets of the batch. Whoever finds one (after a crash, or because another backup of the table is at work
    at the same time) makes exactly that batch, so that all of them write the same bytes under the same keys.
    """

    source: str
    table: str
    topic: str
    topic_id: str
    epoch: int
    ranges: OffsetRanges
    bronze_version: int
    complete: bool
    facts: Mapping[str, Any] = field(default_factory=dict)
    bronze_id: str = ""
    layout: ObjectLayout = field(default_factory=ObjectLayout)

    @property
    def key(self) -> str:
        """The plan's key in the object store."""
        return plans_prefix(self.source, self.table) + batch_name(self.epoch, self.ranges)

    @property
    def manifest_key(self) -> str:
        """The object of its manifest."""
        return manifests_prefix(self.source, self.table) + batch_name(self.epoch, self.ranges)

    @property
    def epoch_key(self) -> str:
        """The object that tells of its epoch before there is a batch of it."""
        return epoch_key(self.source, self.table, self.epoch)

    def to_bytes(self) -> bytes:
        """Canonical JSON: equal plans have equal bytes."""
        return write_document("plan", asdict(self))

    @classmethod
    def from_bytes(cls, data: bytes, *, key: str) -> BatchPlan:
        """Read a plan. Raises BackupError: naming the object, when it is none of this format."""
        fields = read_document("plan", data, key=key)
        try:
            return _plan(fields)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise no_document("plan", key, error) from error


@dataclass(frozen=True)
class ManifestObject:
    """One data object; key relative to the store's prefix."""

    key: str
    size: int
    sha256: str
    md5: str
    records: int
    partition: int
    min_offset: int
    max_offset: int


@dataclass(frozen=True)
class Manifest:
    """One batch of one incarnation of a topic.

    `positions`, `epoch_records` and `records_total` are those of the whole backup with this batch, so that the newest
    manifest alone tells where to go on. `previous` is the `digest` of the manifest before it, empty for the first.
    `digest` is the SHA-256 of this one's bytes as they were read from the store.
    """

    plan: BatchPlan
    records: int
    by_op: Mapping[str, int]
    objects: tuple[ManifestObject, ...]
    positions: Mapping[int, int]
    epoch_records: int
    records_total: int
    previous: str = ""
    digest: str = field(default="", compare=False)

    @property
    def key(self) -> str:
        """The manifest's key in the object store."""
        return self.plan.manifest_key

    @property
    def sha256(self) -> str:
        """Of its bytes, as they were read, else as they are written."""
        return self.digest or digest(self.to_bytes())

    def to_bytes(self) -> bytes:
        """Canonical JSON; the plan's fields are the manifest's own."""
        document = asdict(self)
        del document["digest"]
        return write_document("manifest", {**document.pop("plan"), **document})

    @classmethod
    def from_bytes(cls, data: bytes, *, key: str) -> Manifest:
        """Read a manifest.

        Raises:
            BackupError: naming the object, when it is none of this format, or lies under another one's key.
        """
        fields = read_document("manifest", data, key=key)
        try:
            own = {name: fields.pop(name) for name in _OWN_FIELDS}
            own["positions"] = {int(p): int(o) for p, o in own["positions"].items()}
            own["objects"] = tuple(ManifestObject(**item) for item in own["objects"])
            manifest = cls(_plan(fields), **own, digest=digest(data))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise no_document("manifest", key, error) from error
        if manifest.key != key:
            raise BackupError(f"{key} holds the manifest of {manifest.key}")
        return manifest


def facts_of(state: CommittedTopic) -> dict[str, Any]:
    """What bronze's commits know of a topic, and its rows do not tell."""
    state_facts = state.to_dict()
    return {name: state_facts[name] for name in _FACTS if state_facts.get(name)}


def _plan(raw: Mapping[str, Any]) -> BatchPlan:
    return BatchPlan(**{**raw, "ranges": _ranges(raw["ranges"]), "layout": ObjectLayout(**raw["layout"])})


def _ranges(raw: Mapping[str, Any]) -> dict[int, tuple[int, int]]:
    return {int(p): (int(first), int(end)) for p, (first, end) in raw.items()}


@dataclass(frozen=True)
class NamedObject:
    """What is named as the newest, with the SHA-256 of its bytes; `signature` is empty where nobody has signed."""

    key: str
    digest: str
    signature: str = ""


@dataclass(frozen=True)
class NewestName:
    """The object at `key`, which names the newest object of a chain by name and SHA-256: `_newest` a table's newest manifest.

        0000-00000000000000000020.json 5f70bf18a086…

    `folder` is the prefix of the chain's objects, `is_name` tells their names from others, `what` is their noun in messages.
    Each manifest names the one before it, so that nothing but this names the newest. It may name an older one where a backup
    was killed between the two, and never one that is not there yet. Where the secret is there, a signature stands behind
    (`sign`).
    """

    key: str
    folder: str
    is_name: Callable[[str], bool]
    what: str

    def read(self, store: ObjectStore) -> NamedObject | None:
        """What is named; None where there is no such object, or it names nothing.

        Raises:
            StoreError: the store cannot be asked.
        """
        try:
            return self._parse(store.get(self.key))
        except MissingObjectError:
            return None

    def write(self, store: ObjectStore, key: str, sha256: str) -> None:
        """Let it name the object at `key`, whose bytes have this SHA-256. Raises StoreError: the store does not take it."""
        entry = f"{key.removeprefix(self.folder)} {sha256}"
        store.put(self.key, " ".join(filter(None, (entry, sign(self.key, entry)))).encode())

    def authorship(self, store: ObjectStore) -> str:
        """Whether it is signed, for people; empty where nothing is named."""
        named = self.read(store)
        return describe(named.signature) if named else ""

    def forgeries(self, named: NamedObject, newest: str) -> Iterator[str]:
        """Why whoever has the secret has not written what is named, or the newest that is there."""
        forged = find_forgery(self.key, f"{named.key.removeprefix(self.folder)} {named.digest}", named.signature)
        if forged:
            yield forged
        elif named.signature and newest > named.key and sign(self.key, ""):
            yield f"{newest} is behind what {self.key} has signed: a backup is at work, was killed, or somebody else wrote it"

    def differences(self, store: ObjectStore, digests: Mapping[str, str], read: Callable[[], bytes]) -> Iterator[str]:
        """One sentence for each thing that is wrong: the object that is named is gone, is another one, or nothing names it.

        `digests`: SHA-256 by key of all objects of the chain that are there, empty of what cannot be read; `read`: gives the
        bytes of the object at `key`.
        """
        newest = max(digests, default="")
        try:
            named = self._parse(read())
            if named is None:
                yield f"{self.key} names no {self.what}"
                return
            yield from self.forgeries(named, newest)
            if named.key > newest and not _is_there(store, named.key):
                yield f"{named.key} is missing: {self.key} names it as the newest {self.what}; what it held is not in the backup"
            elif (has := digests.get(named.key)) and named.digest != has:
                yield f"{named.key} is another than when it was written: {self.key} names sha256 {named.digest}, it has {has}"
        except MissingObjectError:
            if newest:
                yield f"{self.key} is missing: nothing tells whether {newest} is the newest {self.what}, or later ones are gone"
        except StoreError as error:
            yield str(error)

    def _parse(self, data: bytes) -> NamedObject | None:
        name, *digests = data.decode(errors="replace").split(" ")
        is_valid = (
            self.is_name(name) and len(digests) in (1, 2) and all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in digests)
        )
        return NamedObject(self.folder + name, *digests) if is_valid else None


def newest_of_table(source: str, table: str) -> NewestName:
    """What names the newest manifest of a table."""
    return NewestName(newest_key(source, table), manifests_prefix(source, table), is_batch_name, "manifest")


def newest_differences(
    store: ObjectStore,
    listed: Mapping[str, StoredObject],
    manifests: Mapping[str, Manifest | str],
    *,
    of: tuple[str, str],
    read: Callable[[StoredObject], bytes],
) -> Iterator[str]:
    """`NewestName.differences` of a table, `of` source and table, by a listing of all that it has there.

    `manifests`: all of the chain by their keys, and instead of one that cannot be read why.
    """
    digests = {key: manifest.sha256 if isinstance(manifest, Manifest) else "" for key, manifest in manifests.items()}
    newest = newest_of_table(*of)
    if newest.key in listed:
        yield from newest.differences(store, digests, lambda: read(listed[newest.key]))
    elif digests:
        # Asked for: a first backup that is made meanwhile may have put it since.
        yield from newest.differences(store, digests, lambda: store.get(newest.key))


def _is_there(store: ObjectStore, key: str) -> bool:
    # Asked where the listing lacks it: a backup that goes on meanwhile may have written it since.
    try:
        store.get(key)
    except MissingObjectError:
        return False
    return True


class KeptManifests:
    """Reads manifests of one store through copies in a folder.

    Manifests as they were read before, kept on this machine: a table that is backed up every five minutes has 100,000 a year.

    A copy counts only while the store lists its object with the MD5 of the copy (an object of S3 that is put in one part has
    its MD5 as ETag; GCS lists md5Hash). Where a store lists none, or the copy is gone, the object is read: the folder is a
    cache and may be removed at any time.
    """

    def __init__(self, store: ObjectStore, folder: Path | None) -> None:
        self._store = store
        self._folder = folder

    def read(self, listed: StoredObject) -> bytes:
        """The object's bytes. Raises StoreError: when it has to be read and cannot be."""
        if self._folder is None or not listed.md5:
            return self._store.get(listed.key)
        name = hashlib.sha256(f"{self._store.url}/{listed.key}".encode()).hexdigest()
        copy = self._folder / name[:2] / name
        try:
            data = copy.read_bytes()
        except FileNotFoundError:
            data = b""
        if len(data) == listed.size and hashlib.md5(data, usedforsecurity=False).hexdigest() == listed.md5:
            return data
        data = self._store.get(listed.key)
        replace_bytes(copy, data)
        return data
