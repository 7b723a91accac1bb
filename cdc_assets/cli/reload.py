"""`cdc reload`: the running Dagster takes in the registry as it is now, and is looked at afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from cdc_assets import settings
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document
from cdc_assets.quantity import quantity
from cdc_assets.registry.models import BaseSource
from cdc_assets.registry_files.loader import load_sources

if TYPE_CHECKING:
    from cdc_assets.running_dagster.news import RegistryNews


def reload(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would come and go, and do nothing.")] = False,
    timeout: Annotated[float, typer.Option(min=1.0, help="Seconds to wait for Dagster to have it.")] = 120.0,
    output: Output = Format.text,
) -> None:
    """Take new, changed and removed registry files into Dagster, and what CDC_DEFINITIONS names.

    Exit 1 when one is broken, and nothing has changed then.
    """
    from cdc_assets.defs.declared_chains import definitions_of
    from cdc_assets.running_dagster.news import compare
    from cdc_assets.running_dagster.own_definitions import news_of_definitions
    from cdc_assets.running_dagster.webserver import Webserver

    url, folder = settings.address("CDC_DAGSTER_URL"), settings.sources_folder()
    sources = load_sources(folder)
    locations = Webserver(url, seconds=timeout).locations()
    news = replace(compare(folder, locations), definitions=news_of_definitions(url))
    answer: dict[str, Any] = {"folder": str(folder), **news.to_json()}
    if dry_run:
        expected = definitions_of(sources, news.gone)
        answer |= expected.difference(locations)
    else:
        answer |= _take_in_all(url, sources, news, timeout)
    if is_data(output):
        print_document(answer, output)
        return
    for word in ("new", "changed", "gone"):
        if answer[word]:
            print(f"{word}: {', '.join(answer[word])}")
    if news.definitions:
        print(f"your definitions: {news.definitions}")
    if dry_run:
        _print_plan(answer)
        return
    assets, checks, jobs = (quantity(answer[f"{noun}s"], noun) for noun in ("asset", "check", "job"))
    counted = f"{assets}, {checks} and {jobs} of {quantity(len(sources), 'source')}"
    print(f"{', '.join(answer['locations'])} at {url} has {counted}; their sensors run; {answer['seconds']} s")


def _take_in_all(url: str, sources: Sequence[BaseSource], news: RegistryNews, timeout: float) -> dict[str, Any]:
    """The registry, and what CDC_DEFINITIONS names; what Dagster has then."""
    from cdc_assets.defs.declared_chains import take_in_sources
    from cdc_assets.defs.user_definitions import try_user_definitions
    from cdc_assets.running_dagster.own_definitions import await_definitions, offer_definitions

    say = Console(stderr=True, highlight=False, markup=False, soft_wrap=True).print
    offer_definitions(url, try_user_definitions)
    taken = take_in_sources(url, sources, gone=news.gone, timeout=timeout, say=lambda text: say(text)).to_json()
    loaded = await_definitions(url, timeout=timeout)
    return {**taken, "definitions": {"named": loaded.named, "assets": list(loaded.assets)} if loaded and loaded.named else None}


def _print_plan(answer: dict[str, Any]) -> None:
    for word in ("to_come", "to_go"):
        for text in answer[word]:
            print(f"{word.replace('_', ' ')}: {text}")
    if not answer["to_come"] and not answer["to_go"]:
        print(f"Dagster has all that {answer['folder']} declares")
