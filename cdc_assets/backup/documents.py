"""The JSON documents of a backup: their one format, their kind, and the digest that some of them hold of what they say.

Plans, manifests, bases, readings, cuts, drills and the entries of the platform's log are such documents. One that another
format has is refused, whatever its kind.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from cdc_assets.registry.errors import BackupError
from spark.errors import other_format

FORMAT = 1


def canonical_json(document: Any) -> bytes:
    """Equal documents as equal bytes: UTF-8, keys sorted, no blanks."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest(data: bytes) -> str:
    """SHA-256 of bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def write_document(kind: str, fields: Mapping[str, Any], *, sealed: bool = False) -> bytes:
    """A document of this kind; a sealed one holds the digest of what it says, so that a changed one is noticed."""
    document = {"cdc_assets": FORMAT, "kind": kind, **fields}
    return canonical_json({**document, "sha256": digest(canonical_json(document))} if sealed else document)


def read_document(kind: str, data: bytes, *, key: str, sealed: bool = False) -> dict[str, Any]:
    """The fields of the document that lies at `key`.

    Raises:
        BackupError: naming the key: it is no such document, has another format, or is not as it was sealed.
    """
    try:
        document: object = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise no_document(kind, key, error) from error
    if not isinstance(document, dict) or document.get("kind") != kind:
        raise BackupError(f"{key} is no {kind} of a backup")
    if refusal := other_format(key, f"a {kind} of a backup", document.get("cdc_assets"), FORMAT):
        raise BackupError(refusal)
    if sealed and document.pop("sha256", None) != digest(canonical_json(document)):
        raise BackupError(f"{key} has another content than the digest in it says")
    return {name: value for name, value in document.items() if name not in ("cdc_assets", "kind")}


def no_document(kind: str, key: str, error: Exception) -> BackupError:
    """What is raised of a document that lacks a field, or has one of another type."""
    return BackupError(f"{key} is no {kind} of a backup: {type(error).__name__}: {error}")
