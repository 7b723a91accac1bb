"""An entry of a source's platform log, and the parts that it names by the digests of their bytes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from cdc_assets.backup.newest import NewestName
from cdc_assets.errors import BackupError

FORMAT = 1
FOLDER = "platform-state"
"""Below a source's prefix, beside its tables: none of their names has a hyphen."""
_PARTS = ("registry", "connectors", "offsets", "topics", "subjects")
_LATER_PARTS = ("kept_log", "server", "given_up")
"""Entries of earlier releases lack them."""


@dataclass(frozen=True)
class PlatformState:
    """What was found: the parts by name, each a document of JSON.

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
        """Each part's bytes: equal parts have equal bytes."""
        return {name: canonical_json(part) for name, part in asdict(self).items()}


@dataclass(frozen=True)
class PlatformEntry:
    """One look at the platform (`at`, UTC); `previous` is the digest of the entry before it, empty for the first."""

    number: int
    at: str
    previous: str
    parts: Mapping[str, str]

    def to_bytes(self) -> bytes:
        """As canonical JSON, always alike."""
        return canonical_json({"cdc_assets": FORMAT, "kind": "platform", **asdict(self)})

    @classmethod
    def from_bytes(cls, data: bytes, *, key: str) -> PlatformEntry:
        """Read an entry.

        Raises:
            BackupError: naming the object, when it is none of this format.
        """
        try:
            raw = json.loads(data)
            kind, version = raw.pop("kind"), raw.pop("cdc_assets")
            entry = cls(**raw)
            parts_known = set(_PARTS) <= set(entry.parts) <= {*_PARTS, *_LATER_PARTS} and all(
                map(_is_digest, entry.parts.values())
            )
            sound = kind == "platform" and isinstance(entry.number, int) and parts_known
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
            raise BackupError(f"{key} is no entry of a platform log: {type(error).__name__}: {error}") from error
        if version != FORMAT:
            raise BackupError(f"{key} has format {version}, this version reads {FORMAT}: upgrade it")
        if not sound:
            raise BackupError(f"{key} is no entry of a platform log")
        return entry


def digest(data: bytes) -> str:
    """SHA-256 of bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def log_prefix(source: str) -> str:
    """What the keys of entries begin with."""
    return f"{_prefix(source)}log/"


def entry_key(source: str, number: int) -> str:
    """Sorts in the order of the numbers."""
    return f"{log_prefix(source)}{number:012d}.json"


def parts_prefix(source: str) -> str:
    """What the keys of parts begin with."""
    return f"{_prefix(source)}parts/"


def part_key(source: str, sha256: str) -> str:
    """The part whose bytes have this digest."""
    return f"{parts_prefix(source)}{sha256}.json"


def newest_entry(source: str) -> NewestName:
    """What names the newest entry, or one a little older."""
    return NewestName(f"{_prefix(source)}newest", log_prefix(source), is_entry_name, "entry")


def is_entry_name(name: str) -> bool:
    """Is it the name of an entry, and not of something that somebody else has put there?"""
    return re.fullmatch(r"[0-9]{12}\.json", name) is not None


def is_part_name(name: str) -> bool:
    """Is it the name of a part, and not of something that somebody else has put there?"""
    return name.endswith(".json") and _is_digest(name.removesuffix(".json"))


def _is_digest(text: object) -> bool:
    return isinstance(text, str) and re.fullmatch(r"[0-9a-f]{64}", text) is not None


def _prefix(source: str) -> str:
    return f"{source}/{FOLDER}/"


def canonical_json(document: Any) -> bytes:
    """Always the same bytes of the same document."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def seal(said: Mapping[str, Any]) -> bytes:
    """A document with the digest of what it says: equal ones have equal bytes."""
    return canonical_json({**said, "sha256": digest(canonical_json(said))})


def unseal(data: bytes, *, key: str) -> dict[str, Any]:
    """What it says, without its digest.

    Raises:
        BackupError: naming the object, when the digest is of another content.
        ValueError, KeyError, AttributeError: it is no such document.
    """
    try:
        said: dict[str, Any] = json.loads(data)
    except RecursionError:
        raise ValueError("brackets within brackets, too deep to be read") from None
    if said.pop("sha256") != digest(canonical_json(said)):
        raise BackupError(f"{key} has another content than the digest in it says")
    return said
