"""What stands around a verb: the sources that it is asked for, options that belong together, exit codes, and warnings.

Exit code 1 is a finding of the verb; what keeps it from finding anything is exit code 2. Sources of an experimental kind are
told of, and verbs that look at the lake say first that Dagster does not have the registry as it is now.
"""

from __future__ import annotations

import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

import typer

from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import ON_PURPOSE, DefinitionsError
from cdc_assets.registry.kinds import experimental_warnings
from cdc_assets.registry.loader import load_sources
from cdc_assets.registry.source_declaration import BaseSource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cdc_assets.operations.registry_reload import RegistryNews

Answer = TypeVar("Answer")


def group_options(command: Callable[..., Answer]) -> Callable[..., Answer]:
    """Of a parameter whose type is a dataclass, typer sees the fields: each is an option, at the parameter's place."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}

    @wraps(command)
    def call(**given: Any) -> Answer:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        return command(**given)

    shown: Any = call
    parameters = list(_parameters(command, hints, groups))
    shown.__signature__ = inspect.Signature(parameters)
    shown.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters} | {"return": hints.get("return")}
    return call


def _parameters(command: Callable[..., Any], hints: dict[str, Any], groups: dict[str, Any]) -> Iterator[inspect.Parameter]:
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name not in groups:
            yield parameter.replace(annotation=hints[parameter.name])
            continue
        group = groups[parameter.name]
        types = get_type_hints(group, include_extras=True)
        for field in fields(group):
            yield inspect.Parameter(field.name, parameter.kind, default=field.default, annotation=types[field.name])


@contextmanager
def report_errors() -> Iterator[None]:
    """Whatever ends the block is told, and becomes exit code 2; a fault of ours with its stack trace.

    Raises:
        typer.Exit: 2.
    """
    try:
        yield
    except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
        raise
    except ON_PURPOSE as error:
        if os.environ.get("CDC_DEBUG"):
            traceback.print_exc()
        print(f"cdc: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    except Exception as error:
        # Python's own exit code for it is 1, which says here that something differs.
        traceback.print_exc()
        raise typer.Exit(2) from error


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
    from cdc_assets.capture.connectors.connector_inventory import connector_owners

    owners = connector_owners(load_sources(settings.sources_folder()))
    return [name for name in owners if name.startswith(incomplete)]


def complete_topic(incomplete: str) -> list[str]:
    """For the shell: topics of declared tables that are mirrored, and begin like this."""
    sources = [source for source in load_sources(settings.sources_folder()) if names.is_mirrored(source)]
    topics = [names.topic(source, table) for source in sources for table in source.tables]
    return [name for name in topics if name.startswith(incomplete)]


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
    except DefinitionsError as error:
        return RegistryNews(unknown=str(error))
