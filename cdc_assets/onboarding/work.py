"""What the steps of an onboarding work with, and what a step is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from cdc_assets import settings
from cdc_assets.errors import OnboardingError
from cdc_assets.onboarding.state import Facts, Onboarding
from cdc_assets.registry.loader import load_sources
from cdc_assets.registry.models import CapturedSource, Database, Source, Table
from cdc_assets.resources.databases.postgresql_capture import PostgresCapture
from cdc_assets.resources.platform import Platform

_NOT_ITS_KIND = (
    "{name} is of kind {kind}, and onboarding knows publications and slots only: declare the table, apply, and ask the "
    "connector for a snapshot by hand"
)


@dataclass
class Work:
    """One onboarding and the world around it. `say` takes progress for people."""

    platform: Platform
    state: Onboarding
    declared: Source
    say: Callable[[str], None]

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The tables that are taken in, as declared, or by their name alone."""
        known = {table.name: table for table in self.declared.tables}
        return tuple(known.get(name) or Table(name=name) for name in self.state.tables)

    @cached_property
    def before(self) -> Source:
        """The source without them."""
        return self._with(tuple(t for t in self.declared.tables if t.name not in self.state.tables))

    @cached_property
    def after(self) -> Source:
        """The source with them, in the registry's order where they are in it already."""
        known = {table.name for table in self.declared.tables}
        return self._with((*self.declared.tables, *(t for t in self.tables if t.name not in known)))

    @cached_property
    def database(self) -> PostgresCapture:
        """The source's database."""
        database = self.declared.database
        assert isinstance(database, Database)
        return PostgresCapture(database)

    def _with(self, tables: tuple[Table, ...]) -> Source:
        return self.declared.model_copy(update={"tables": tables})


@dataclass(frozen=True)
class Step:
    """One step: `run` may be repeated, and answers with what it found; `undo` takes back what it may have done."""

    name: str
    what: str
    run: Callable[[Work], Facts]
    undo: Callable[[Work], Facts] | None = None


def declared_source(name: str) -> Source:
    """The source of that name in the registry.

    Raises:
        OnboardingError: when there is none, or it is no database.
    """
    sources = {source.name: source for source in load_sources(settings.sources_folder())}
    found = sources.get(name)
    if found is None:
        raise OnboardingError(f"no source {name}; there are: {', '.join(sources)}")
    if isinstance(found, CapturedSource) and not isinstance(found, Source):
        raise OnboardingError(_NOT_ITS_KIND.format(name=name, kind=found.database.kind))
    if not isinstance(found, Source):
        raise OnboardingError(
            f"{name} is a source of topics: declare its table and topic in the registry, nothing else is needed"
        )
    if not isinstance(found.database, Database):
        raise OnboardingError(_NOT_ITS_KIND.format(name=name, kind=found.database.kind))
    return found
