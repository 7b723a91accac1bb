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
    core, source = work.platform.core_kafka(), work.after
    found = {}
    for table in work.tables:
        name = names.topic(source, table)
        found[name] = make_topic(core, source, table, deadline=_TOPIC_DEADLINE_SECONDS).ends
    before = work.state.done.get("topics", {}).get("ends")
    return {"ends": before or {name: {str(p): end for p, end in ends.items()} for name, ends in found.items()}}


def mirror(work: OnboardingWork) -> Facts:
    """MirrorMaker 2 carries the new topics; waits until they are in the lake's cluster."""
    began = time.monotonic()
    applied = bring_connector(work.platform.lake_connect(), work.after, mirror_config(work.after))
    lake = work.platform.lake_kafka()
    for table in work.tables:
        lake.await_state(names.lake_topic(work.after, table), deadline=_TOPIC_DEADLINE_SECONDS)
    return {"connector": applied.name, "change": applied.summary, "seconds": round(time.monotonic() - began, 3)}


def without_mirror(work: OnboardingWork) -> Facts:
    """The mirror carries what it did before; the topics stay, with whatever is in them."""
    return {"mirror": bring_connector(work.platform.lake_connect(), work.before, mirror_config(work.before)).summary}


TOPICS = Step("topics", "their topics are made on the core cluster", topics)
MIRROR = Step("mirror", "the mirror connector carries their topics to the lake's cluster", mirror, without_mirror)
