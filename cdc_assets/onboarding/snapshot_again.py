"""A captured table is read again by its running connector: `cdc snapshot`. Of the connector nothing is written.

No journal: each step looks at what is there, so a command that was killed is given again. Rows that come twice are folded once.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Literal

from cdc_assets import names
from cdc_assets.connectors.capture import not_listed
from cdc_assets.connectors.notifications import AGAIN
from cdc_assets.errors import OnboardingError
from cdc_assets.onboarding.declared_source import find_source
from cdc_assets.onboarding.state import Facts, Journal, Onboarding, only_one
from cdc_assets.onboarding.steps import capture, prerequisites, snapshot
from cdc_assets.onboarding.work import OnboardingWork, Step
from cdc_assets.resources.platform import Platform

Way = Literal["incremental", "blocking"]


def work_of(platform: Platform, source: str, table: str, way: Way, say: Callable[[str], None]) -> OnboardingWork:
    """What the steps work with; nothing is asked of a service.

    Raises:
        OnboardingError: no table of that source can be read again that way, or an onboarding of it is not done.
    """
    declared = find_source(source)
    if running := Journal.of(source).running:
        raise OnboardingError(f"{running.id} is not done: cdc onboard {source} --resume, or --rollback, then this command again")
    command = f"cdc snapshot {source} {table}" + (" --blocking" if way == "blocking" else "")
    now = dt.datetime.now(dt.timezone.utc)
    state = Onboarding(f"{AGAIN}{source}-{now:%Y%m%dT%H%M%S%f}", source, way, (table,), now.isoformat())
    work = OnboardingWork(platform, state, declared, say, command)
    if why := work.kind.refused.get(way):
        raise OnboardingError(f"{source} is of kind {declared.database.kind}: {why}; leave --blocking out")
    return work


def judge(work: OnboardingWork) -> Facts:
    """What the first step asks: the connector runs and lists the table, which exists and has a key.

    Raises:
        OnboardingError: naming all that stands in the way.
    """
    facts = prerequisites.run(work)
    config = work.platform.core_connect().config(names.connector_name(work.after))
    if late := not_listed(work.after.model_copy(update={"tables": work.tables}), config):
        raise OnboardingError(f"connector {facts['connector']} does not capture {late}: cdc onboard {work.after.name} {late}")
    return facts


def publish(work: OnboardingWork) -> Facts:
    """The running connector's publication has the table, which a DROP has taken out, and the signal table."""
    work.kind.update_capture(work, work.after)
    return {"tables": [table.name for table in work.tables]}


def steps(way: Way) -> tuple[Step, ...]:
    """In their order; `way`: by chunks while all goes on, or in one piece while nothing is streamed."""
    return (
        Step("preflight", prerequisites.STEP.what, judge),
        Step("signal-table", capture.SIGNAL_TABLE.what, capture.signal_table),
        Step("published", "the publication has the table; DROP TABLE takes one out of it (PostgreSQL)", publish),
        capture.WRITERS,
        snapshot.by_signal(way),
    )


def read_again(work: OnboardingWork, way: Way) -> dict[str, Facts]:
    """Every step; what each has found.

    Raises:
        CdcAssetsError: from the step that failed.
    """
    with only_one(work.after.name):
        found = {}
        for step in steps(way):
            work.state.current = step.name
            found[step.name] = step.run(work)
        return found
