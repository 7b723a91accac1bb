"""`cdc remove`: takes a source away: its connector, what its database keeps for us, and by word its data."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc_assets import settings
from cdc_assets.cli.chosen_sources import chosen_sources, complete_source
from cdc_assets.cli.experimental import tell_experimental
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document
from cdc_assets.errors import RemovalError
from cdc_assets.removal.words import GO, STAY, PartsChosen

if TYPE_CHECKING:
    from cdc_assets.removal.steps import Removal

_KEEP = f"Of {', '.join(GO)}: what is to stay. Several with commas."
_DELETE = f"Of {', '.join(STAY)}: what is to go as well. Several with commas."


def remove(
    source: Annotated[str, typer.Argument(help="The source's name in the registry.", autocompletion=complete_source)],
    keep: Annotated[list[str] | None, typer.Option("--keep", help=_KEEP)] = None,
    delete: Annotated[list[str] | None, typer.Option("--delete", help=_DELETE)] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask. Without a terminal this is needed.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan, and do nothing.")] = False,
    output: Output = Format.text,
) -> None:
    """Remove a source: connectors, what its database keeps for us, its registry file. Data stays unless named.

    After a kill, the same command goes on. Exit 1 when the role may not remove something: then the statement is printed.
    """
    from cdc_assets.removal.registry_file import find_declaration
    from cdc_assets.removal.steps import Removal, plan
    from cdc_assets.removal.steps import remove as remove_all
    from cdc_assets.resources.platform import Platform

    try:
        choice = PartsChosen.of(keep or (), delete or ())
    except RemovalError as error:
        raise typer.BadParameter(str(error)) from None
    declared = find_declaration(settings.sources_folder(), source)
    if declared is None:
        chosen_sources([source])
        return
    tell_experimental([declared.source])
    rows = plan(declared.source, choice)
    if not is_data(output):
        _print_plan(f"{source}, declared in {declared.file}", rows)
    if not dry_run and not yes:
        _confirm(source, output)
    removal = Removal(Platform(), declared, choice, lambda text: print(text, file=sys.stderr, flush=True))
    if not dry_run:
        remove_all(removal)
    if is_data(output):
        print_document({"source": source, "dry_run": dry_run, "plan": rows, **_outcome(removal)}, output)
    elif not dry_run:
        _print_outcome(removal)
    if any(trace.costs for trace in removal.left):
        raise typer.Exit(1)


def _print_plan(title: str, rows: list[dict[str, Any]]) -> None:
    print(title)
    for row in rows:
        print(f"  {row['action']:7} {row['word']:12} {row['what']}")


def _confirm(source: str, output: str) -> None:
    """Raises BadParameter where nobody can be asked."""
    if not sys.stdin.isatty() or is_data(output):
        raise typer.BadParameter(f"nobody can be asked here: cdc remove {source} … --yes, or --dry-run to look")
    typer.confirm("Remove what the plan says?", abort=True)


def _outcome(removal: Removal) -> dict[str, Any]:
    words = {"left": True, "stays": False}
    traces = {word: [trace.to_json() for trace in removal.left if trace.costs == costs] for word, costs in words.items()}
    return {"gone": removal.gone, **traces}


def _print_outcome(removal: Removal) -> None:
    for text in removal.gone or ["nothing was there any more"]:
        print(f"gone: {text}")
    for trace in removal.left:
        if trace.costs:
            print(f"left: {trace.what}; somebody who may removes it: {trace.statement}")
        else:
            print(f"stays: {trace.what}; it costs nothing, and goes by: {trace.statement} (or --delete {trace.word})")
