"""Captured tables, or some rows of them, are read again by their running connector: `cdc snapshot`.

Of the connector nothing is written. No journal: each step looks at what is there, so a command that was killed is given again.
Rows that come twice are folded once.
"""

from __future__ import annotations

import datetime as dt
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from cdc_assets.capture.connectors.debezium_signals import AGAIN, PART
from cdc_assets.capture.connectors.declared_connectors import not_listed
from cdc_assets.capture.onboarding import connector_steps, snapshot
from cdc_assets.capture.onboarding.onboarding_state import (
    Facts,
    Journal,
    Onboarding,
    OnboardingWork,
    Step,
    find_source,
    only_one,
    takes,
)
from cdc_assets.capture.onboarding.snapshot import refuse_condition
from cdc_assets.clients.platform import Platform
from cdc_assets.registry import names
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.source_declaration import BaseSource

Way = Literal["incremental", "blocking"]
_WHOLE = (
    "--where goes with the reading by chunks only: rows of a blocking snapshot say that the table is whole, and with "
    "schema_changes {drop_table: evolve} silver would lose all others; leave --blocking out"
)


@dataclass(frozen=True)
class Reading:
    """What is read again: the tables by their registry names, by chunks or in one piece; `where`: SQL that names the rows."""

    tables: tuple[str, ...]
    way: Way = "incremental"
    where: str = ""

    def command(self, source: str) -> str:
        """As it is given again."""
        options = ["--blocking"] * (self.way == "blocking") + (["--where", self.where] if self.where else [])
        return shlex.join(["cdc", "snapshot", source, *self.tables, *options])


def refuse_kind(source: BaseSource) -> None:
    """Refuse a source whose connector takes no signals from here. Raises RefusalError: naming what there is instead."""
    if source.captured is None:
        raise RefusalError(
            f"{source.name} is a source of topics: nobody can be asked for its rows again but whoever fills the topic; let them "
            "send the records again"
        )
    if not takes(source):
        raise RefusalError(
            f"{source.name} is of kind {source.kind_name}, whose signals are not sent from here; rows that differ are asked for "
            f"by: cdc reconcile {source.name} --heal (reconciliation: {{signals: schema.table}})"
        )


def work_of(platform: Platform, source: str, reading: Reading, say: Callable[[str], None]) -> OnboardingWork:
    """What the steps work with; nothing is asked of a service.
    Raises RefusalError: no table of that source can be read again that way, or an onboarding of it is not done."""
    declared = find_source(source)
    if running := Journal.of(source).running:
        raise RefusalError(f"{running.id} is not done: cdc onboard {source} --resume, or --rollback, then this command again")
    now = dt.datetime.now(dt.timezone.utc)
    prefix = PART if reading.where else AGAIN
    state = Onboarding(f"{prefix}{source}-{now:%Y%m%dT%H%M%S%f}", source, reading.way, reading.tables, now.isoformat())
    onboarding = OnboardingWork(platform, state, declared, say, reading.command(source))
    if why := onboarding.kind.refused.get(reading.way):
        raise RefusalError(f"{source} is of kind {declared.database.kind}: {why}; leave --blocking out")
    if reading.where and reading.way == "blocking":
        raise RefusalError(_WHOLE)
    return onboarding


def judge(work: OnboardingWork, where: str = "") -> Facts:
    """What the first step asks: the connector runs and lists the tables, which exist and have keys; they have the rows asked for.
    Raises RefusalError: naming all that stands in the way."""
    facts = connector_steps.check_prerequisites(work)
    config = work.core_connect.config(names.connector_name(work.after))
    if late := not_listed(work.after.model_copy(update={"tables": work.tables}), config):
        raise RefusalError(f"connector {facts['connector']} does not capture {late}: cdc onboard {work.after.name} {late}")
    if where:
        refuse_condition(work, where)
    return facts


def publish(work: OnboardingWork) -> Facts:
    """The running connector's publication has the tables, which a DROP has taken out, and the signal table."""
    work.kind.update_capture(work, work.after)
    return {"tables": [table.name for table in work.tables]}


def steps(reading: Reading) -> tuple[Step, ...]:
    """In their order: by chunks while all goes on, or in one piece while nothing is streamed."""
    return (
        Step("preflight", connector_steps.PREREQUISITES.what, lambda work: judge(work, reading.where)),
        Step("signal-table", connector_steps.SIGNAL_TABLE.what, connector_steps.make_signal_table),
        Step("published", "the publication has the tables; DROP TABLE takes one out of it (PostgreSQL)", publish),
        connector_steps.WRITERS,
        snapshot.by_signal(reading.way, reading.where),
    )


def read_again(work: OnboardingWork, reading: Reading) -> dict[str, Facts]:
    """Every step; what each has found. Raises CdcAssetsError: from the step that failed."""
    with only_one(work.after.name):
        facts = {}
        for step in steps(reading):
            work.state.current = step.name
            facts[step.name] = step.run(work)
        return facts
