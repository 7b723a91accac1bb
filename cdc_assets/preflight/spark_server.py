"""What Spark is at, and of a server of somebody else's: versions, Delta, Kafka's source, its executors and their Python."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from cdc_assets import settings
from cdc_assets.errors import SparkRunError
from cdc_assets.preflight.finding import Finding, Report, sort_findings
from cdc_assets.quantity import quantity
from cdc_assets.resources.spark_needs import MEND, foreign_facts, lacks_of
from cdc_assets.resources.spark_work import RESTART, overlong_work

if TYPE_CHECKING:
    from cdc_assets.resources.platform import Platform
    from spark.delta.server_facts import SparkFacts

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
        found = Finding("reachable", "fail", "server", str(error), "mend that first")
        return Report(SPARK, remote, (found,))
    return Report(SPARK, remote, sort_findings([*long, *_findings(facts)]))


def _findings(facts: SparkFacts) -> list[Finding]:
    place = facts.cluster
    told = f"{place.master}: {quantity(len(facts.executors), 'executor')}, {quantity(place.slots, 'task')} at a time"
    versions = ", ".join(f"{name} {version}" for name, version in facts.jars.items() if version)
    found = [
        Finding("executors", "ok", "server", told),
        Finding("versions", "ok", "server", f"Spark {facts.spark}, {versions}"),
    ]
    for lack in lacks_of(facts):
        found.append(Finding(lack.rule, "fail" if lack.is_needed else "warn", "server", lack.message, MEND))
    return found
