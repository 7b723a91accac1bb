"""The sources that a verb is asked for."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from cdc_assets import names, settings
from cdc_assets.registry.models import BaseSource
from cdc_assets.registry_files.loader import load_sources


def chosen_sources(chosen: Sequence[str] = ()) -> list[BaseSource]:
    """These sources of the registry; all when none is named.

    Raises:
        typer.BadParameter: naming a source that there is not, and those that there are.
    """
    sources = {source.name: source for source in load_sources(settings.sources_folder())}
    if unknown := sorted(set(chosen) - set(sources)):
        raise typer.BadParameter(f"no source {', '.join(unknown)}; there are: {', '.join(sources)}")
    return [source for name, source in sources.items() if not chosen or name in chosen]


def complete_source(incomplete: str) -> list[str]:
    """For the shell: names of sources that begin like this."""
    return [source.name for source in load_sources(settings.sources_folder()) if source.name.startswith(incomplete)]


def complete_connector(incomplete: str) -> list[str]:
    """For the shell: names of declared connectors that begin like this; asks no service."""
    from cdc_assets.connectors.inventory import connector_owners

    found = connector_owners(load_sources(settings.sources_folder()))
    return [name for name in found if name.startswith(incomplete)]


def complete_topic(incomplete: str) -> list[str]:
    """For the shell: topics of declared tables that are mirrored, and begin like this."""
    sources = [source for source in load_sources(settings.sources_folder()) if names.is_mirrored(source)]
    found = [names.topic(source, table) for source in sources for table in source.tables]
    return [name for name in found if name.startswith(incomplete)]
