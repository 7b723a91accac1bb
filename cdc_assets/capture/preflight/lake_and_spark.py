"""Asks what the lake stands on: whether its object store takes writes, tells the time and refuses a second file of one
name, and what a Spark Connect server of somebody else's has.

Two commits of one version are told apart by that refusal alone, so a store without it fails.
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

from cdc_assets.capture.preflight.inspection import Finding, Report, sort_findings
from cdc_assets.clients.spark_sessions import MEND, foreign_facts, lacks_of
from cdc_assets.clients.spark_work import RESTART, overlong_work
from cdc_assets.registry import settings
from cdc_assets.registry.errors import SparkRunError
from spark.errors import EndpointError, quantity
from spark.table.lake_location import is_object, store_place
from spark.table.table_folder import LakeFolder, open_folder

if TYPE_CHECKING:
    from cdc_assets.clients.platform import Platform
    from spark.table.server_facts import SparkFacts

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
    except (EndpointError, FileNotFoundError) as error:
        findings = [Finding("store", "fail", "bucket", f"does not do what a lake needs: {error}", f"keys and rights: {_MEND}")]
    return Report(LAKE, root, sort_findings(findings))


def _clock(folder: LakeFolder) -> Finding:
    """The store's own keys are refused from a quarter of an hour on, and lifecycle rules and vacuums go by both clocks."""
    skew = abs(folder.now() - time.time())
    skewed = f"is {skew:.0f} s off this machine's"
    if skew > _SKEW_SECONDS:
        return Finding("clock", "warn", "the store's clock", skewed, "set this machine's clock (NTP)")
    return Finding("clock", "ok", "the store's clock", skewed)


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


SPARK = "spark"


def inspect_spark(platform: Platform) -> Report | None:
    """All findings; None where there is no Spark yet, or it is the stack's own and no job takes too long."""
    remote = settings.lookup("CDC_SPARK_REMOTE")
    if not remote:
        return None
    own = settings.is_of_stack(remote)
    long = [Finding("jobs", "warn", "server", told, RESTART if own else "") for told in overlong_work(time.time())]
    if own:
        return Report(SPARK, remote, tuple(long)) if long else None
    try:
        facts = foreign_facts(platform.spark())
    except SparkRunError as error:
        finding = Finding("reachable", "fail", "server", str(error), "mend that first")
        return Report(SPARK, remote, (finding,))
    return Report(SPARK, remote, sort_findings([*long, *_findings(facts)]))


def _findings(facts: SparkFacts) -> list[Finding]:
    cluster = facts.cluster
    size = f"{cluster.master}: {quantity(len(facts.executors), 'executor')}, {quantity(cluster.slots, 'task')} at a time"
    versions = ", ".join(f"{name} {version}" for name, version in facts.jars.items() if version)
    findings = [
        Finding("executors", "ok", "server", size),
        Finding("versions", "ok", "server", f"Spark {facts.spark}, {versions}"),
    ]
    for lack in lacks_of(facts):
        findings.append(Finding(lack.rule, "fail" if lack.is_needed else "warn", "server", lack.message, MEND))
    return findings
