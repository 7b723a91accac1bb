"""Runs the steps of an onboarding in the order of its route, marks each one done, and goes on or takes back after a crash.
All routes end in the same state.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cdc_assets.capture.onboarding import connector_steps, git_steps, registry_entries, snapshot, topic_verification
from cdc_assets.capture.onboarding.connector_steps import KNOWN_TABLES
from cdc_assets.capture.onboarding.onboarding_state import (
    Facts,
    Journal,
    Onboarding,
    OnboardingWork,
    Route,
    Step,
    TakeIn,
    find_source,
    only_one,
)
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Say
from cdc_assets.clients.table_concurrency import table_lock
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.field_types import parse_table
from spark.errors import quantity

_FIRST = (
    connector_steps.PREREQUISITES,
    registry_entries.DECLARE_TABLES,
    connector_steps.TOPICS,
    connector_steps.MIRROR,
    connector_steps.SIGNAL_TABLE,
)
_BY_SIGNAL = (*_FIRST, connector_steps.CONNECTOR, connector_steps.WRITERS)
ROUTES: dict[Route, tuple[Step, ...]] = {
    "incremental": (
        *_BY_SIGNAL,
        snapshot.by_signal("incremental"),
        topic_verification.VERIFY_TOPICS,
        registry_entries.VERIFY_DEFINITIONS,
    ),
    "blocking": (
        *_BY_SIGNAL,
        snapshot.by_signal("blocking"),
        topic_verification.VERIFY_TOPICS,
        registry_entries.VERIFY_DEFINITIONS,
    ),
    "temporary": (
        *(connector_steps.PREREQUISITES, registry_entries.DECLARE_TABLES, connector_steps.TOPICS, connector_steps.MIRROR),
        *(
            connector_steps.STOP_CONNECTOR,
            connector_steps.RESUME_CONNECTOR,
            connector_steps.WRITERS,
            connector_steps.TEMPORARY_SNAPSHOT,
            connector_steps.REMOVE_TEMPORARY,
            topic_verification.VERIFY_TOPICS,
            registry_entries.VERIFY_DEFINITIONS,
        ),
    ),
    "offboard": (
        connector_steps.KNOWN_TABLES,
        connector_steps.CONNECTOR_WITHOUT_TABLES,
        connector_steps.MIRROR_WITHOUT_TABLES,
        connector_steps.REGISTRY_WITHOUT_TABLES,
        registry_entries.VERIFY_DEFINITIONS,
    ),
}
_WATCHED = {step.name: (step,) for step in git_steps.STEPS}
_TEMPORARY_WATCHED = {"snapshot": (git_steps.SNAPSHOT,), "remove": git_steps.REMOVE}


def steps_of(route: Route, *, watched: bool = False) -> list[Step]:
    """The steps of a route, in order; `watched`: what others apply from git is waited for."""
    if not watched:
        return [*ROUTES[route]]
    waited = _WATCHED | (_TEMPORARY_WATCHED if route == "temporary" else {})
    return [one for step in ROUTES[route] for one in waited.get(step.name, (step,))]


def job_name(route: Route) -> str:
    """Of the job that goes this route."""
    return route if route == "offboard" else f"onboard_{route}"


_BEGIN_SECONDS = 30.0


@dataclass(frozen=True)
class Outcome:
    """What was done: `state` is done, rolled back, planned, or nothing to do."""

    source: str
    tables: tuple[str, ...]
    route: Route
    state: str
    steps: dict[str, Facts]

    @property
    def left_over(self) -> tuple[str, ...]:
        """By table: rows that silver keeps though the source has deleted them meanwhile, and what takes them out."""
        verified = self.steps.get("verify", {})
        return tuple(
            f"{table}: {quantity(rows, 'row')} of its topic deleted while it was not captured stay in silver, since no event "
            f"tells of that: {verified['mends'][table]}"
            for table, rows in verified.get("stranded", {}).items()
        )

    def to_json(self) -> dict[str, Any]:
        """What `-o json` prints of one onboarding."""
        return {"source": self.source, "tables": list(self.tables), "route": self.route, "state": self.state, "steps": self.steps}


def begin(source: str, tables: Sequence[str], route: Route, *, again: bool = False, watched: bool = False) -> Onboarding | None:
    """Write down that an onboarding begins; None when all its tables are already in.

    Raises:
        RefusalError: while another one is not done, or a name is no table's.
    """
    names = tuple(dict.fromkeys(str(_table(name)) for name in tables))
    declared = {table.name for table in find_source(source, route, watched=watched).tables}
    # Two people who begin in the same moment: the second one is told of the first.
    with table_lock("onboarding", source, "begin", deadline=_BEGIN_SECONDS):
        journal = Journal.of(source)
        running = journal.running
        if running is not None:
            if (running.tables, running.route, running.watched) != (names, route, watched):
                raise _not_done_error(running)
            return running
        in_already = all(name in journal.finished and name in declared for name in names)
        if not again and route != "offboard" and names and in_already:
            return None
        now = dt.datetime.now(dt.timezone.utc)
        journal.running = Onboarding(
            f"onboard-{source}-{now:%Y%m%dT%H%M%S%f}", source, route, names, now.isoformat(), watched=watched
        )
        journal.save()
        return journal.running


def plan(source: str, tables: Sequence[str], route: Route, *, watched: bool = False) -> list[Step]:
    """The steps that `begin` and `go_on` would take.

    Raises:
        RefusalError: when the source or a table's name is not one.
    """
    find_source(source, route, watched=watched)
    for name in tables:
        _table(name)
    return steps_of(route, watched=watched)


def judge(platform: Platform, source: str, tables: Sequence[str], route: Route) -> None:
    """What the first step would find, asked now; it changes nothing.

    Raises:
        RefusalError: with every finding, such as a table that does not exist; CdcAssetsError: whom it could not ask.
    """
    names = tuple(dict.fromkeys(str(_table(name)) for name in tables))
    at = dt.datetime.now(dt.timezone.utc).isoformat()
    trial = Onboarding(f"judge-{source}", source, route, names, at)
    steps_of(route)[0].run(OnboardingWork(platform, trial, find_source(source, route), lambda _: None))


def go_on(platform: Platform, source: str, say: Say, before: Say = lambda _: None, *, take_in: TakeIn | None = None) -> Outcome:
    """Run every step that is not done yet; `before` is told the name of each, `take_in` tells Dagster.

    Raises:
        RefusalError: when none was begun; CdcAssetsError: when a step fails; the steps before it stay done.
    """
    with only_one(source):
        running = _running(source)
        for step in _steps(running):
            if step.name not in running.done:
                before(step.name)
                run_step(platform, source, step.name, say, take_in=take_in)
        return finish(source)


def run_step(platform: Platform, source: str, name: str, say: Say, *, take_in: TakeIn | None = None) -> Facts:
    """One step; it is marked as begun before, and as done behind it."""
    journal = Journal.of(source)
    running = _require_running(journal, source)
    if name in running.done:
        return running.done[name]
    step = next(step for step in _steps(running) if step.name == name)
    running.current = name
    journal.save()
    say(f"{name}: {step.what}")
    began = time.monotonic()
    declared = find_source(source, running.route, watched=running.watched)
    facts = step.run(OnboardingWork(platform, running, declared, say, take_in=take_in))
    running.done[name] = {**facts, "step_seconds": round(time.monotonic() - began, 3)}
    running.current = None
    journal.save()
    return running.done[name]


def finish(source: str) -> Outcome:
    """Every step is done: the tables are in (or, offboarded, out)."""
    journal = Journal.of(source)
    running = _require_running(journal, source)
    at = dt.datetime.now(dt.timezone.utc).isoformat()
    for table in running.tables:
        if running.route == "offboard":
            journal.finished.pop(table, None)
        else:
            journal.finished[table] = {"route": running.route, "at": at, "id": running.id}
    journal.running = None
    journal.save()
    return Outcome(source, running.tables, running.route, "done", running.done)


def roll_back(platform: Platform, source: str, say: Say) -> Outcome:
    """Take back, last step first, what the steps have done that can be taken back. May be repeated.

    Raises:
        RefusalError: tables that were taken out have not been captured since, which nothing takes back.
    """
    with only_one(source):
        journal = Journal.of(source)
        running = _require_running(journal, source)
        if running.route == "offboard" and {*running.done, running.current or KNOWN_TABLES.name} != {KNOWN_TABLES.name}:
            listed = " ".join(running.tables)
            raise RefusalError(
                f"{source}: {listed} are taken out, and what changes in them is in no event any more: that cannot be taken back. "
                f"cdc offboard {source} --resume, then cdc onboard {source} {listed}, which reads them whole"
            )
        onboarding = OnboardingWork(platform, running, find_source(source, running.route, watched=running.watched), say)
        taken: dict[str, Facts] = {}
        for step in reversed(_steps(running)):
            if step.undo is not None and (step.name in running.done or step.name == running.current):
                say(f"{step.name}: taken back")
                taken[step.name] = step.undo(onboarding)
        journal.running = None
        journal.save()
        return Outcome(source, running.tables, running.route, "rolled back", taken)


def _steps(running: Onboarding) -> list[Step]:
    return steps_of(running.route, watched=running.watched)


def _running(source: str) -> Onboarding:
    return _require_running(Journal.of(source), source)


def _require_running(journal: Journal, source: str) -> Onboarding:
    if journal.running is None:
        raise RefusalError(f"{source}: no onboarding was begun that is not done; cdc onboard {source} TABLE…")
    return journal.running


def _not_done_error(running: Onboarding) -> RefusalError:
    at = running.current or "between steps"
    ways = f"cdc onboard {running.source} --resume, or --rollback"
    if running.route == "offboard":
        ways = f"cdc offboard {running.source} --resume"
    what = "offboarding" if running.route == "offboard" else f"{running.route} onboarding"
    of = f"{running.source}: the {what} of {', '.join(running.tables)} (begun {running.began_at})"
    return RefusalError(f"{of} is not done and stands at {at}: {ways}")


def _table(name: str) -> Any:
    try:
        return parse_table(name)
    except ValueError as error:
        raise RefusalError(f"{name!r}: {error}") from None
