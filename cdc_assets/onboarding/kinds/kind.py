"""What the steps ask of a kind of database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from cdc_assets.onboarding.state import Facts, Route
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import CapturedSource
from cdc_assets.resources.databases.catalogue import CatalogueTable, SourceDatabase

if TYPE_CHECKING:
    from cdc_assets.onboarding.work import OnboardingWork


class CaptureDatabase(SourceDatabase, Protocol):
    """A source's database, as onboarding uses it."""

    def ensure_signal_table(self, table: TableId) -> None:
        """Make the table that signals are written to."""

    def send_signal(self, table: TableId, signal: str, kind: str, data: str) -> None:
        """Write a signal, once: the same id again changes nothing."""

    def clear_signals(self, table: TableId) -> int:
        """Remove signals and watermarks that have been read; the number of rows."""


class OnboardingKind(Protocol):
    """One kind of database. All of it may be repeated."""

    @property
    def refused(self) -> Mapping[Route, str]:
        """The routes that it cannot take, and why."""

    @property
    def by_git(self) -> bool:
        """Whether others may apply what is declared, while the steps wait."""

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
