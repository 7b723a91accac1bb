"""What the steps of an onboarding work with, what they ask of a kind of database, and what a step is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from cdc_assets.kinds import kind_of
from cdc_assets.onboarding.state import Facts, Onboarding, Route
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import BaseSource, CapturedSource
from cdc_assets.resources.connect import ConnectClient
from cdc_assets.resources.databases.catalogue import CatalogueTable, SourceDatabase
from cdc_assets.resources.kafka import KafkaCluster
from cdc_assets.resources.platform import Platform

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
        known = {table.name: table for table in self.declared.tables}
        return tuple(known.get(name) or Table(name=name) for name in self.state.tables)

    @cached_property
    def before(self) -> CapturedSource:
        """The source without them, but for those that its connector had already: they are read again, and stay."""
        had = self.state.done.get("preflight", {}).get("captured", ())
        return self._with(tuple(t for t in self.declared.tables if t.name not in self.state.tables or t.name in had))

    @cached_property
    def after(self) -> CapturedSource:
        """The source with them, in the registry's order where they are in it already."""
        known = {table.name for table in self.declared.tables}
        return self._with((*self.declared.tables, *(t for t in self.tables if t.name not in known)))

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
        found = onboarding_kind(self.declared)
        assert found is not None, self.declared.kind_name
        return found

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
    part = kind_of(source).onboarding
    found: OnboardingKind | None = part.load()() if part else None
    return found
