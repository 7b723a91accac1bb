"""`cdc replay`: silver and the history of a table made again from bronze, by today's rules."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc_assets import settings
from cdc_assets.cli.chosen_sources import chosen_sources, complete_source
from cdc_assets.cli.option_group import group_options
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document

if TYPE_CHECKING:
    from cdc_assets.registry.base_table import Table
    from cdc_assets.registry.models import BaseSource

_TIME = "Rows with an event at the source {} this time: 2026-11-25T14:00:00Z."


@dataclass(frozen=True)
class ReplayOptions:
    """What of the table is made again, and how."""

    keys: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help='Only this key: 42, or {"a": 1, "b": "x"}; may be given again.')
    ] = None
    since: Annotated[str, typer.Option("--from", metavar="TIME", help=_TIME.format("at or after"))] = ""
    until: Annotated[str, typer.Option("--to", metavar="TIME", help=_TIME.format("before"))] = ""
    as_new: Annotated[bool, typer.Option("--as-new", help="Without columns that are kept of earlier schemas.")] = False


@group_options
def replay(
    source: Annotated[str, typer.Argument(help="Its name in the registry.", autocompletion=complete_source)],
    table: Annotated[str, typer.Argument(help="As in the registry or in the lake.")],
    wanted: ReplayOptions,
    undo: Annotated[bool, typer.Option("--undo", help="Take the newest replay back.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what differs, and change nothing.")] = False,
    output: Output = Format.text,
) -> None:
    """Make silver, and the history, again from bronze by today's rules; show what differs, and swap it in.

    Readers go on: each table changes by one commit, at its own path.
    """
    from cdc_assets.replay.replay_table import ReplayWish, replay_table
    from cdc_assets.resources.platform import Platform

    settings.export_stack_environment()
    in_time = wanted.since or wanted.until
    if (wanted.keys and in_time) or (undo and (wanted.keys or in_time or wanted.as_new)):
        raise typer.BadParameter("--keys, --from with --to, and --undo do not go together")
    (declared,) = chosen_sources([source])
    try:
        chosen = declared.table(table)
    except KeyError as error:
        raise typer.BadParameter(str(error.args[0])) from None
    if undo:
        _undo(declared, chosen, dry_run, output)
        return
    wish = ReplayWish(tuple(wanted.keys or ()), wanted.since, wanted.until, wanted.as_new, dry_run)
    answer = replay_table(Platform(), declared, chosen, wish, _say).to_json()
    if is_data(output):
        print_document({**answer, "dry_run": dry_run}, output)
    else:
        _print_answer(answer, dry_run=dry_run)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _undo(source: BaseSource, table: Table, dry_run: bool, output: Format) -> None:
    from cdc_assets.replay.replay_table import undo_replay
    from cdc_assets.resources.platform import Platform

    versions = undo_replay(Platform(), source, table, _say, dry_run=dry_run)
    if is_data(output):
        print_document({"source": source.name, "table": table.name, "as_of": versions, "dry_run": dry_run}, output)
        return
    for layer, version in versions.items():
        there = f"as of version {version}" if version >= 0 else "as before there was one"
        print(f"{layer}: {'would be ' if dry_run else ''}{there}")


def _print_answer(answer: dict[str, Any], *, dry_run: bool) -> None:
    name = f"{answer['source']}/{answer['table']}"
    for change in answer["rules"]:
        print(f"rule {change}")
    for layer, found in answer["difference"].items():
        counts = ", ".join(f"{count:,} {kind}" for kind, count in found["rows"].items() if count)
        print(f"{name} {layer} (version {found['version']}): {counts or 'no row differs'}")
        for line in found["schema"]:
            print(f"  {line}")
        for column, count in found["changed_by_column"].items():
            print(f"  {column}: {count:,} changed")
        for example in found["examples"]:
            print(f"  {_sentence(example)}")
    if answer["quarantined"] or answer["folded_of_quarantine"]:
        print(f"quarantine: {answer['quarantined']:,} cannot be folded, {answer['folded_of_quarantine']:,} are folded after all")
    if answer["swapped"]:
        versions = ", ".join(f"{layer} version {version}" for layer, version in answer["versions"].items())
        print(f"{name}: swapped in ({versions}); cdc replay {answer['source']} {answer['table']} --undo takes it back")
    else:
        print(f"{name}: {'nothing was changed (--dry-run)' if dry_run else 'nothing to swap in'}")


def _sentence(example: dict[str, Any]) -> str:
    """An example: `changed id=1: note broken -> x`."""
    key = ", ".join(f"{name}={value}" for name, value in example["key"].items())
    was, now = example["was"], example["now"]
    if was and now:
        values = ", ".join(f"{name} {was[name]} -> {now[name]}" for name in now)
    else:
        values = ", ".join(f"{name} {value}" for name, value in (was or now).items())
    return f"{example['kind']} {key}" + (f": {values}" if values else "")
