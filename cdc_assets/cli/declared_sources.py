"""What the registry declares, as verbs ask for it: sources and tables by name, names for the shell, and what is to be told first.

Sources of an experimental kind are told of, and verbs that look at the lake say that Dagster does not have the registry as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import RefusalError, ServiceError
from cdc_assets.registry.kinds import experimental_warnings
from cdc_assets.registry.loader import load_sources
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cdc_assets.operations.registry_reload import RegistryNews


class ChosenSources(tuple[BaseSource, ...]):
    """Sources of the registry, in its order. `are_named`: by who calls; else they are all that there are."""

    are_named = False


def chosen_sources(chosen: Sequence[str] = ()) -> list[BaseSource]:
    """These sources of the registry; all when none is named.
    Raises typer.BadParameter: naming a source that there is not, and those that there are."""
    sources = {source.name: source for source in load_sources(settings.sources_folder())}
    if unknown := sorted(set(chosen) - set(sources)):
        raise typer.BadParameter(f"no source {', '.join(unknown)}; there are: {', '.join(sources)}")
    return [source for name, source in sources.items() if not chosen or name in chosen]


def table_of(source: BaseSource, name: str) -> Table:
    """The table of that name, as in the registry or in the lake. Raises typer.BadParameter: naming the tables that there are."""
    try:
        return source.table(name)
    except KeyError as error:
        raise typer.BadParameter(str(error.args[0])) from None


def complete_source(incomplete: str) -> list[str]:
    """For the shell: names of sources that begin like this."""
    return [source.name for source in load_sources(settings.sources_folder()) if source.name.startswith(incomplete)]


def complete_connector(incomplete: str) -> list[str]:
    """For the shell: names of declared connectors that begin like this; asks no service."""
    from cdc_assets.capture.connectors.connector_inventory import connector_owners

    owners = connector_owners(load_sources(settings.sources_folder()))
    return [name for name in owners if name.startswith(incomplete)]


def complete_topic(incomplete: str) -> list[str]:
    """For the shell: topics of declared tables that are mirrored, and begin like this."""
    sources = [source for source in load_sources(settings.sources_folder()) if names.is_mirrored(source)]
    topics = [names.topic(source, table) for source in sources for table in source.tables]
    return [name for name in topics if name.startswith(incomplete)]


Sources = Annotated[ChosenSources, typer.Argument(help="Sources; default all.", autocompletion=complete_source)]
BackedUpSources = Annotated[
    ChosenSources, typer.Argument(metavar="[SOURCE]…", help="All that have a backup without.", autocompletion=complete_source)
]
EVERY_SOURCE = ChosenSources()


def with_backup(chosen: ChosenSources, purpose: str) -> list[BaseSource]:
    """Those that were named, or all that declare a backup.
    Raises RefusalError: there is none; `purpose` is what there is nothing for."""
    sources = [source for source in chosen if chosen.are_named or source.backup is not None]
    if not sources:
        raise RefusalError(f"no source declares a backup: there is nothing to {purpose} (backup: in its file)")
    return sources


def tell_experimental(sources: Iterable[BaseSource]) -> None:
    """A line for each of them, where no document is printed."""
    for name, warning in experimental_warnings(sources).items():
        print(f"cdc: {name}: {warning}", file=sys.stderr)


def dagster_news() -> RegistryNews | None:
    """None: no Dagster is known."""
    from cdc_assets.operations.registry_reload import RegistryNews, registry_news

    url = settings.lookup("CDC_DAGSTER_URL")
    if url is None:
        return None
    try:
        return registry_news(url, settings.sources_folder())
    except ServiceError as error:
        return RegistryNews(unknown=str(error))
