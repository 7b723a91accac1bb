"""The declared source that an onboarding is about, or why there can be none."""

from __future__ import annotations

from cdc_assets import names, settings
from cdc_assets.connectors.owner import COMMIT, refuse_write
from cdc_assets.errors import OnboardingError
from cdc_assets.kinds import kind_of, names_with
from cdc_assets.onboarding.state import Route
from cdc_assets.onboarding.work import onboarding_kind
from cdc_assets.registry.models import BaseSource, CapturedSource
from cdc_assets.registry_files.loader import load_sources

_NOT_ITS_KIND = (
    "{name} is of kind {kind}, and onboarding takes tables of {known} only. By hand: declare the table, cdc apply {name}; once "
    "{connector} runs with it, ask for an incremental snapshot of it by a row in the source's signal table (reconciliation: "
    "{{signals: schema.table}}): {url}"
)
_BY_HAND = "https://debezium.io/documentation/reference/3.6/configuration/signalling.html"


def takes(source: BaseSource) -> bool:
    """Whether tables of the source can be taken in, or read again, by onboarding."""
    return kind_of(source).onboarding is not None


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
    kind = onboarding_kind(found)
    if kind is None:
        about = {"name": name, "kind": found.database.kind, "known": ", ".join(names_with("onboarding")), "url": _BY_HAND}
        raise OnboardingError(_NOT_ITS_KIND.format(**about, connector=names.connector_name(found)))
    if route is not None and route in kind.refused:
        open_to_it = " or ".join(other for other in ("incremental", "temporary") if other not in kind.refused)
        raise OnboardingError(f"{name} is of kind {found.database.kind}: {kind.refused[route]}; take route {open_to_it}")
    if route is not None and not watched:
        refuse_write(found, *_way_by_git(found, route))
    if watched and kind.not_by_git:
        raise OnboardingError(
            f"{name} is of kind {found.database.kind}: {kind.not_by_git}; cdc onboard without --watch, then commit what "
            "cdc render says"
        )
    return found
