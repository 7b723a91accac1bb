"""`cdc diff` and `cdc apply`: connectors as the registry declares them."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cdc_assets.cli.chosen_sources import chosen_sources, complete_source
from cdc_assets.cli.experimental import tell_experimental
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document
from cdc_assets.quantity import quantity

Chosen = Annotated[list[str] | None, typer.Argument(help="Sources; default all.", autocompletion=complete_source)]


def diff(sources: Chosen = None, output: Output = Format.text) -> None:
    """Show what `cdc apply` would change; exit 1 when there is a difference, 2 when it would be refused."""
    tell_experimental(chosen_sources(sources or ()))
    raise typer.Exit(_preview(sources, output))


def apply(
    sources: Chosen = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Validate and show the difference, change nothing.")] = False,
    resume_offsets: Annotated[
        bool,
        typer.Option(
            "--resume-offsets", help="Go on from offsets that Connect has kept of a deleted connector of the same name."
        ),
    ] = False,
    output: Output = Format.text,
) -> None:
    """Bring the connectors to what is declared. Connect validates first. Only what differs is applied."""
    tell_experimental(chosen_sources(sources or ()))
    if dry_run:
        raise typer.Exit(2 if _preview(sources, output) == 2 else 0)
    from cdc_assets.apply.apply_sources import bring_sources
    from cdc_assets.resources.platform import Platform

    done = []
    for row in bring_sources(Platform(), chosen_sources(sources or ()), resume_offsets=resume_offsets):
        done.append(row.to_json())
        for told in row.told:
            print(f"cdc: {told}", file=sys.stderr)
        if row.applied is not None and not is_data(output):
            print(row.line)
    if is_data(output):
        print_document(done, output)
    if any(row["error"] for row in done):
        raise typer.Exit(1)


def _preview(sources: list[str] | None, output: str) -> int:
    from cdc_assets.connectors.declared_connectors import declared_connectors
    from cdc_assets.connectors.difference import difference_of
    from cdc_assets.resources.platform import Platform

    platform = Platform()
    declared = declared_connectors(chosen_sources(sources or ()))
    found = [difference_of(platform.connect(d.cluster), d.source, d.config) for d in declared]
    if is_data(output):
        print_document([each.to_json() for each in found], output)
    else:
        for line in (line for each in found for line in each.lines()):
            print(line)
        if all(each.summary == "same" for each in found):
            print(f"{quantity(len(found), 'connector')} as declared", file=sys.stderr)
    if any(each.summary == "refused" for each in found):
        return 2
    return 0 if all(each.summary == "same" for each in found) else 1
