"""Topics and mirror before the first row: they are made as declared, and nobody's auto-creation decides."""

from __future__ import annotations

import time

from cdc_assets import names
from cdc_assets.connectors.apply import bring_connector
from cdc_assets.connectors.declared_topic import make_topic
from cdc_assets.connectors.mirrormaker2 import mirror_config
from cdc_assets.onboarding.state import Facts
from cdc_assets.onboarding.work import OnboardingWork, Step

_TOPIC_DEADLINE_SECONDS = 120.0


def topics(work: OnboardingWork) -> Facts:
    """Each table's topic on the core cluster, with the offsets at which this onboarding finds it."""
    core, source = work.core_kafka, work.after
    found = {}
    for table in work.tables:
        name = names.topic(source, table)
        found[name] = make_topic(core, source, table, deadline=_TOPIC_DEADLINE_SECONDS).ends
    before = work.state.done.get("topics", {}).get("ends")
    return {"ends": before or {name: {str(p): end for p, end in ends.items()} for name, ends in found.items()}}


def mirror(work: OnboardingWork) -> Facts:
    """MirrorMaker 2 carries the new topics; waits until they are in the lake's cluster."""
    began, connect, declared = time.monotonic(), work.platform.lake_connect(), mirror_config(work.after)
    if work.after.mirror.new_tables == "first" and connect.config(declared["name"]) != declared:
        bring_connector(connect, work.after, {**declared, "topics": _topics_alone(work)})
        _await_copies(work)
    applied = bring_connector(connect, work.after, declared)
    _await_copies(work)
    return {"connector": applied.name, "change": applied.summary, "seconds": round(time.monotonic() - began, 3)}


def _topics_alone(work: OnboardingWork) -> str:
    """The new tables' topics, without those that the mirror carries; what is kept of its list would have them too."""
    bare = work.after.mirror.model_copy(update={"settings": {}})
    return mirror_config(work.after.model_copy(update={"tables": work.tables, "mirror": bare}))["topics"]


def _await_copies(work: OnboardingWork) -> None:
    lake = work.platform.lake_kafka()
    for table in work.tables:
        lake.await_state(names.lake_topic(work.after, table), deadline=_TOPIC_DEADLINE_SECONDS)


def without_mirror(work: OnboardingWork) -> Facts:
    """The mirror carries what it did before; the topics stay, with whatever is in them."""
    return {"mirror": bring_connector(work.platform.lake_connect(), work.before, mirror_config(work.before)).summary}


TOPICS = Step("topics", "their topics are made on the core cluster", topics)
MIRROR = Step("mirror", "the mirror connector carries their topics to the lake's cluster", mirror, without_mirror)
