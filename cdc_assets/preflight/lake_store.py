"""Asks the object store of a lake: whether it answers, lets us write, tells the time, and refuses a second file of one name."""

from __future__ import annotations

import time
import uuid

from cdc_assets.preflight.finding import Finding, Report, sort_findings
from cdc_assets.quantity import quantity
from spark.errors import LakeStoreError
from spark.lake.folder import LakeFolder, open_folder
from spark.lake.place import is_object, store_place

LAKE = "lake"
PROBES = "_cdc_preflight"
"""The folder of what is written to look, and removed then."""
_CONDITIONS = {"s3": "If-None-Match", "gcs": "ifGenerationMatch=0"}
_SKEW_SECONDS = 60.0
_MEND = "docs/how-to/object-store-lake.md"


def inspect_lake(root: str) -> Report | None:
    """All findings; None of a lake on a local disk."""
    if not is_object(root):
        return None
    folder = open_folder(root)
    try:
        findings = [_clock(folder), *_rights(folder)]
    except (LakeStoreError, FileNotFoundError) as error:
        findings = [Finding("store", "fail", "bucket", f"does not do what a lake needs: {error}", f"keys and rights: {_MEND}")]
    return Report(LAKE, root, sort_findings(findings))


def _clock(folder: LakeFolder) -> Finding:
    """The store's own keys are refused from a quarter of an hour on, and lifecycle rules and vacuums go by both clocks."""
    skew = abs(folder.now() - time.time())
    told = f"is {skew:.0f} s off this machine's"
    if skew > _SKEW_SECONDS:
        return Finding("clock", "warn", "the store's clock", told, "set this machine's clock (NTP)")
    return Finding("clock", "ok", "the store's clock", told)


def _rights(folder: LakeFolder) -> list[Finding]:
    name = f"{PROBES}/{uuid.uuid4().hex}"
    try:
        folder.put(name, b"first")
        is_listed = name.partition("/")[2] in folder.names(PROBES)
        rights = _judge(
            "rights", "write, read, list", "does not show what it took", holds=is_listed and folder.read(name) == b"first"
        )
        return [rights, _conditional(folder, name)]
    finally:
        folder.delete(name)


def _conditional(folder: LakeFolder, name: str) -> Finding:
    """Two commits of one version are told apart by this alone."""
    won = [folder.put_if_absent(f"{name}-once", content) for content in (b"one", b"two")]
    kept = folder.read(f"{name}-once")
    folder.delete(f"{name}-once")
    why = f"of two files of one name it took {quantity(sum(won), 'file')}, and holds {kept.decode()!r}: commits would be lost"
    condition = _CONDITIONS[store_place(folder.path).kind]
    return _judge("conditional_put", condition, why, holds=(won, kept) == ([True, False], b"one"))


def _judge(check: str, subject: str, why: str, *, holds: bool) -> Finding:
    if holds:
        return Finding(check, "ok", subject, "holds")
    return Finding(check, "fail", subject, why, f"another store, or another release of it: {_MEND}")
