"""What the steps of an onboarding work with, and what a step is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from cdc_assets import names, settings
from cdc_assets.connectors.owner import COMMIT, refuse_write
from cdc_assets.errors import OnboardingError
from cdc_assets.kinds import kind_of, names_with
from cdc_assets.onboarding.kinds.kind import CaptureDatabase, OnboardingKind
from cdc_assets.onboarding.state import Facts, Onboarding, Route
from cdc_assets.registry.loader import load_sources
from cdc_assets.registry.models import BaseSource, CapturedSource, Table
from cdc_assets.resources.platform import Platform

_NOT_ITS_KIND = (
    "{name} is of kind {kind}, and onboarding takes tables of {known} only. By hand: declare the table, cdc apply {name}; once "
    "{connector} runs with it, ask for an incremental snapshot of it by a row in the source's signal table (reconciliation: "
    "{{signals: schema.table}}): {url}"
)
_BY_HAND = "https://debezium.io/documentation/reference/3.6/configuration/signalling.html"


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

    @cached_property
    def database(self) -> CaptureDatabase:
        """The source's database, opened for capture by its kind."""
        return self.kind.database(self.declared)

    @property
    def kind(self) -> OnboardingKind:
        """What its kind of database does differently."""
        found = _onboarding_kind(self.declared)
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


def takes(source: BaseSource) -> bool:
    """Whether tables of the source can be taken in, or read again, by onboarding."""
    return kind_of(source).onboarding is not None


def _onboarding_kind(source: BaseSource) -> OnboardingKind | None:
    part = kind_of(source).onboarding
    found: OnboardingKind | None = part.load()() if part else None
    return found


def _way_by_git(source: BaseSource, route: Route) -> tuple[str, str]:
    """What was asked for, and how git does it."""
    if route == "offboard":
        return f"cdc offboard {source.name}", f"take the tables out of the registry, and {COMMIT}"
    return f"cdc onboard {source.name}", f"cdc onboard {source.name} TABLE… --watch prints each commit and waits for it"


def find_source(name: str, route: Route | None = None, *, watched: bool = False) -> CapturedSource:
    """The source of that name in the registry.

    Raises:
        OnboardingError: when there is none, it is no database, or its kind cannot go that way.
    """
    sources = {source.name: source for source in load_sources(settings.sources_folder())}
    if name not in sources:
        raise OnboardingError(f"no source {name}; there are: {', '.join(sources)}")
    found = sources[name].captured
    if found is None:
        raise OnboardingError(
            f"{name} is a source of topics: declare its table and topic in the registry, nothing else is needed"
        )
    kind = _onboarding_kind(found)
    if kind is None:
        about = {"name": name, "kind": found.database.kind, "known": ", ".join(names_with("onboarding")), "url": _BY_HAND}
        raise OnboardingError(_NOT_ITS_KIND.format(**about, connector=names.connector_name(found)))
    if route is not None and route in kind.refused:
        open_to_it = " or ".join(other for other in ("incremental", "temporary") if other not in kind.refused)
        raise OnboardingError(f"{name} is of kind {found.database.kind}: {kind.refused[route]}; take route {open_to_it}")
    if route is not None and not watched:
        refuse_write(found, *_way_by_git(found, route))
    if watched and not kind.by_git:
        raise OnboardingError(
            f"{name} is of kind {found.database.kind}: while its connector is stopped, its schema history is written to, which "
            "no commit can do; cdc onboard without --watch, then commit what cdc render says"
        )
    return found
