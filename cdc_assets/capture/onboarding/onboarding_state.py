"""What an onboarding has done so far, of which declared source it is, what its steps work with, and what they ask of a kind
of database.

The state is a section of what this machine remembers of the source, replaced in one step after each step, so that a run that
was killed goes on. Transactions that others have begun are waited for, and it is said whose they are.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

from cdc_assets.capture.connectors.connector_inventory import COMMIT, refuse_write
from cdc_assets.clients.connect import ConnectClient
from cdc_assets.clients.databases.catalogue import CatalogueTable, SourceDatabase
from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.table_concurrency import table_lock
from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.loader import load_sources
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource
from cdc_assets.registry.source_state import SourceState
from cdc_assets.registry.table_declaration import Table

Route = Literal["incremental", "blocking", "temporary", "offboard"]
Facts = dict[str, Any]


@dataclass
class Onboarding:
    """One run: which tables by which route, and per step what it found; `current` has begun and is not done."""

    id: str
    source: str
    route: Route
    tables: tuple[str, ...]
    began_at: str
    done: dict[str, Facts] = field(default_factory=dict)
    current: str | None = None
    watched: bool = False
    """What others apply from git is waited for."""

    def fact(self, step: str, name: str) -> Any:
        """What a step that is done has found."""
        return self.done[step][name]


_SECTION = "onboarding"


@dataclass
class Journal:
    """What this machine remembers of a source's onboardings: {"running": {…} | null, "finished": {table: {…}}}.

    It says which steps are done; each step may be repeated, so a crash between a step and its mark costs one repetition.
    It is local, as the locks are: whoever goes on with an onboarding does so where it was begun.
    """

    source: str
    running: Onboarding | None = None
    finished: dict[str, Facts] = field(default_factory=dict)

    @classmethod
    def of(cls, source: str) -> Journal:
        """Read, or empty where there is none."""
        data = SourceState(source, _SECTION).read() or {"running": None, "finished": {}}
        running = data["running"]
        if running is not None:
            running = Onboarding(**{**running, "tables": tuple(running["tables"])})
        return cls(source, running, data["finished"])

    def save(self) -> None:
        """Replace what is remembered; it is whole, old or new, after a crash at any moment."""
        data = {"running": None if self.running is None else asdict(self.running), "finished": self.finished}
        SourceState(self.source, _SECTION).write(data)


@contextmanager
def only_one(source: str) -> Iterator[None]:
    """Hold the source's onboarding for the block: two at once would restart the connector under each other."""
    with table_lock("onboarding", source, "connector", deadline=1.0):
        yield


TakeIn = Callable[[str, Sequence[BaseSource], Callable[[str], None]], Facts]
"""Takes sources into the Dagster at an address, saying what it waits for; what Dagster has of them then."""


@dataclass
class OnboardingWork:
    """One onboarding and the world around it.

    `say` takes progress for people; `command` is given again after a failure. Without `take_in` no Dagster is told, which
    is enough where a table is read again that was declared before.
    """

    platform: Platform
    state: Onboarding
    declared: CapturedSource
    say: Callable[[str], None]
    command: str = ""
    take_in: TakeIn | None = None

    @property
    def resume(self) -> str:
        """The command that goes on with it."""
        return self.command or f"cdc onboard {self.declared.name} --resume"

    @property
    def or_rollback(self) -> str:
        """Behind it in a message: what may also be done with an onboarding."""
        return "" if self.command else ", or --rollback"

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The tables that are taken in, as declared, or by their name alone."""
        by_name = {table.name: table for table in self.declared.tables}
        return tuple(by_name.get(name) or Table(name=name) for name in self.state.tables)

    @cached_property
    def before(self) -> CapturedSource:
        """The source without them, but for those that its connector had already: they are read again, and stay."""
        had = self.state.done.get("preflight", {}).get("captured", ())
        return self._with(tuple(t for t in self.declared.tables if t.name not in self.state.tables or t.name in had))

    @cached_property
    def after(self) -> CapturedSource:
        """The source with them, in the registry's order where they are in it already."""
        declared = {table.name for table in self.declared.tables}
        return self._with((*self.declared.tables, *(t for t in self.tables if t.name not in declared)))

    @property
    def core_kafka(self) -> KafkaCluster:
        """The core cluster that the source's topics are on."""
        return self.platform.core_kafka(self.declared.cluster)

    @property
    def core_connect(self) -> ConnectClient:
        """The Connect cluster that runs its connector."""
        return self.platform.core_connect(self.declared.cluster)

    @cached_property
    def database(self) -> CaptureDatabase:
        """The source's database, opened for capture by its kind."""
        return self.kind.database(self.declared)

    @property
    def kind(self) -> OnboardingKind:
        """What its kind of database does differently."""
        kind = onboarding_kind(self.declared)
        assert kind is not None, self.declared.kind_name
        return kind

    def _with(self, tables: tuple[Table, ...]) -> CapturedSource:
        return self.declared.model_copy(update={"tables": tables})


@dataclass(frozen=True)
class Step:
    """One step: `run` may be repeated, and answers with what it found; `undo` takes back what it may have done."""

    name: str
    what: str
    run: Callable[[OnboardingWork], Facts]
    undo: Callable[[OnboardingWork], Facts] | None = None


class CaptureDatabase(SourceDatabase, Protocol):
    """A source's database, as onboarding uses it."""

    def ensure_signal_table(self, table: TableId) -> None:
        """Make the table that signals are written to."""

    def send_signal(self, table: TableId, signal: str, kind: str, data: str) -> None:
        """Write a signal, once: the same id again changes nothing."""

    def clear_signals(self, table: TableId) -> int:
        """Remove signals and watermarks that have been read; the number of rows."""

    def plan_reading(self, table: TableId, condition: str) -> None:
        """Plan a reading of the rows that a condition (SQL) names; a DatabaseError says why that is not possible."""


class OnboardingKind(Protocol):
    """One kind of database. All of it may be repeated."""

    @property
    def refused(self) -> Mapping[Route, str]:
        """The routes that it cannot take, and why."""

    @property
    def not_by_git(self) -> str:
        """Why others cannot apply what is declared, while the steps wait; empty where they can."""

    @property
    def keyless(self) -> str:
        """What a table without a key would lead to, and what to do; `{table}` is its name."""

    @property
    def outlives_session(self) -> bool:
        """Whether its connector streams on, or again by itself, when the session in which it reads tables is lost."""

    @property
    def rows_rank_by_place(self) -> bool:
        """Whether rows of a temporary connector stand in the topic in no order with changes, without saying so in a header."""

    def database(self, source: CapturedSource) -> CaptureDatabase:
        """The source's database, opened for capture."""

    def unready(self, work: OnboardingWork, ids: Sequence[TableId]) -> list[str]:
        """Findings about these tables that exist, each with what mends it."""

    def columns(self, work: OnboardingWork, found: Mapping[TableId, CatalogueTable]) -> Mapping[TableId, CatalogueTable]:
        """The columns that silver will have; `found`: the catalogue's."""

    def why_uncountable(self, work: OnboardingWork) -> str:
        """Why rows cannot be counted at one place of the log; empty where they can."""

    def halt(self, work: OnboardingWork, source: CapturedSource) -> float:
        """Stop the running connector, ready for the tables of `source`; when it was stopped (time.monotonic)."""

    def update_capture(self, work: OnboardingWork, source: CapturedSource) -> None:
        """The stopped connector's config has the tables of `source`: what else must have them."""

    def reader(self, work: OnboardingWork) -> str:
        """Who reads the log for the running connector: another one after each of its starts; empty: nobody.

        Where that is not known, each answer is another one.
        """

    def log_end(self, work: OnboardingWork) -> int:
        """A place of the log behind which lies all that is written from now on."""

    def reads_from_before(self, work: OnboardingWork, place: int) -> bool:
        """Whether a connector that starts now would meet all that was written behind this place."""

    def await_writers(self, work: OnboardingWork) -> Facts:
        """Wait for the transactions that have written to the tables before their changes were captured."""

    def stop(self, work: OnboardingWork) -> Facts:
        """The first step of the temporary route."""

    def temporary_config(self, work: OnboardingWork) -> dict[str, str]:
        """The connector that reads the new tables beside the running one."""

    def clear_leftovers(self, work: OnboardingWork) -> Facts:
        """The temporary connector is gone: so is whatever it has left."""

    def sees(self, snapshot: Any, origin: Mapping[str, Any]) -> bool:
        """Whether a count at `snapshot` has seen the change whose event says `origin` (its `source`)."""


def onboarding_kind(source: BaseSource) -> OnboardingKind | None:
    """What a source's kind of database does; None where onboarding does not take its tables."""
    from cdc_assets.capture.kind_capture import capture_of

    kind = capture_of(source).onboarding
    return None if kind is None else kind()


_NOT_ITS_KIND = (
    "{name} is of kind {kind}, and onboarding takes tables of {known} only. By hand: declare the table, cdc apply {name}; once "
    "{connector} runs with it, ask for an incremental snapshot of it by a row in the source's signal table (reconciliation: "
    "{{signals: schema.table}}): {url}"
)
_BY_HAND = "https://debezium.io/documentation/reference/3.6/configuration/signalling.html"


def _not_its_kind(source: CapturedSource) -> str:
    from cdc_assets.capture.kind_capture import CAPTURE

    kinds = ", ".join(name for name, row in CAPTURE.items() if row.onboarding)
    about = {"name": source.name, "kind": source.database.kind, "known": kinds, "url": _BY_HAND}
    return _NOT_ITS_KIND.format(**about, connector=names.connector_name(source))


def takes(source: BaseSource) -> bool:
    """Whether tables of the source can be taken in, or read again, by onboarding."""
    return onboarding_kind(source) is not None


def _way_by_git(source: BaseSource, route: Route) -> tuple[str, str]:
    """What was asked for, and how git does it."""
    if route == "offboard":
        return f"cdc offboard {source.name}", f"take the tables out of the registry, and {COMMIT}"
    return f"cdc onboard {source.name}", f"cdc onboard {source.name} TABLE… --watch prints each commit and waits for it"


def find_source(name: str, route: Route | None = None, *, watched: bool = False) -> CapturedSource:
    """The source of that name in the registry.

    Raises:
        RefusalError: when there is none, it is no database, or its kind cannot go that way.
    """
    sources = {source.name: source for source in load_sources(settings.sources_folder())}
    if name not in sources:
        raise RefusalError(f"no source {name}; there are: {', '.join(sources)}")
    source = sources[name].captured
    if source is None:
        raise RefusalError(f"{name} is a source of topics: declare its table and topic in the registry, nothing else is needed")
    kind = onboarding_kind(source)
    if kind is None:
        raise RefusalError(_not_its_kind(source))
    if route is not None and route in kind.refused:
        open_to_it = " or ".join(other for other in ("incremental", "temporary") if other not in kind.refused)
        raise RefusalError(f"{name} is of kind {source.database.kind}: {kind.refused[route]}; take route {open_to_it}")
    if route is not None and not watched:
        refuse_write(source, *_way_by_git(source, route))
    if watched and kind.not_by_git:
        raise RefusalError(
            f"{name} is of kind {source.database.kind}: {kind.not_by_git}; cdc onboard without --watch, then commit what "
            "cdc render says"
        )
    return source


class ListedTables:
    """A part of `onboarding_state.OnboardingKind`."""

    keyless = (
        "{table} has no primary key: its updates and deletes would go to quarantine, and a snapshot by chunks cannot read it; "
        "add a primary key, or declare its keys in the registry"
    )
    rows_rank_by_place = True

    def update_capture(self, work: OnboardingWork, source: CapturedSource) -> None:
        """Nothing more: the list is the connector's own."""
        return

    def reader(self, work: OnboardingWork) -> str:
        """Another id at each call: the server does not tell who reads, or is not asked."""
        return str(uuid.uuid4())

    def log_end(self, work: OnboardingWork) -> int:
        """0: no place of the log is compared."""
        return 0

    def reads_from_before(self, work: OnboardingWork, place: int) -> bool:
        """False: where it would go on is not asked."""
        return False

    def stop(self, work: OnboardingWork) -> Facts:
        """Nothing yet: the connector is stopped when it gets its list, in the next step."""
        return {"stopped_at": None}

    def clear_leftovers(self, work: OnboardingWork) -> Facts:
        """The temporary connector's schema history is gone, where it had one."""
        kafka, topic = work.core_kafka, names.temporary_schema_history_topic(work.after)
        there = topic in kafka.states([topic])
        if there:
            kafka.delete_topic(topic)
        return {"schema_history_deleted": there}


_DEADLINE_SECONDS = 3600.0
_TOLD_EVERY_SECONDS = 15.0


def await_ended(work: OnboardingWork, still_open: Callable[[], dict[str, str]]) -> Facts:
    """Wait until the transactions that are open now have ended; later ones are not waited for.

    Raises:
        RefusalError: naming those that are open after an hour.
    """
    began = told_at = time.monotonic()
    first = left = still_open()
    while left:
        now = time.monotonic()
        if now - began > _DEADLINE_SECONDS:
            raise RefusalError(
                f"{work.database.place}: open since before the tables were captured: {'; '.join(left.values())}; end these "
                f"transactions, then {work.resume}"
            )
        if now - told_at > _TOLD_EVERY_SECONDS:
            work.say(f"waiting for {'; '.join(left.values())}")
            told_at = now
        time.sleep(0.2)
        current = still_open()
        left = {key: who for key, who in left.items() if key in current}
    return {"waited_for": len(first), "seconds": round(time.monotonic() - began, 3)}
