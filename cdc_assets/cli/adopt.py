"""`cdc adopt`: takes over a Debezium connector that others have made; writes the registry entry, and nothing to Connect."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_assets import settings
from cdc_assets.cli.option_group import group_options
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document
from cdc_assets.quantity import quantity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdc_assets.adoption.adopt import Adoption
    from cdc_assets.adoption.setting_differences import SettingDifference

_OURS = "Declare none of its settings: the next `cdc apply` brings ours, and restarts it."


@dataclass(frozen=True)
class AdoptOptions:
    """What is adopted, and as what."""

    source: Annotated[str, typer.Option("--source", help="The source's name; default: by its topic prefix.")] = ""
    cluster: Annotated[str, typer.Option(help="The core cluster that it is at, where there are several.")] = "core"
    ours: Annotated[bool, typer.Option("--ours", help=_OURS)] = False


@group_options
def adopt(
    connector: Annotated[str, typer.Argument(help="A connector of Debezium's on a core's Connect.")],
    chosen: AdoptOptions,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask. Without a terminal this is needed.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what was read and what differs; write nothing.")] = False,
    output: Output = Format.text,
) -> None:
    """Take over a running connector: read it, its slot, topics, offsets and mirror, and write its registry entry.

    The connector is left as it is, and is not restarted. What differs from ours is shown, and declared in the entry.
    """
    from cdc_assets.adoption.adopt import look, write
    from cdc_assets.resources.platform import Platform

    found = look(Platform(), connector, settings.sources_folder(), source=chosen.source, cluster=chosen.cluster, ours=chosen.ours)
    if not is_data(output):
        _print(found)
    if not dry_run:
        if not yes:
            _confirm(connector, found, output)
        write(found)
    if is_data(output):
        print_document({"dry_run": dry_run, "written": not dry_run, **found.to_json()}, output)
    elif not dry_run:
        _print_next(found, ours=chosen.ours)


def _confirm(connector: str, found: Adoption, output: str) -> None:
    """Raises BadParameter where nobody can be asked."""
    if not sys.stdin.isatty() or is_data(output):
        raise typer.BadParameter(f"nobody can be asked here: cdc adopt {connector} --yes, or --dry-run to look")
    typer.confirm(f"Write {found.file}?", abort=True)


def _print(found: Adoption) -> None:
    running, source = found.running, found.source
    print(f"{running.name} at {running.url}: kind {running.kind.name}, RUNNING; source {source.name} in {found.file}")
    for name, facts in found.found.facts.items():
        print(f"  {name:12} {', '.join(f'{key}: {value}' for key, value in facts.items())}")
    for entry in running.offsets:
        print(f"  {'offset':12} {entry.get('partition')} at {entry.get('offset')}")
    for name, state in found.topics.items():
        print(f"  {'topic':12} {name}: {state.ranges if state else 'not there yet'}")
    if found.mirror:
        copies = quantity(len(found.copies), "topic")
        print(f"  {'mirror':12} {found.mirror.name}, copies {found.mirror.alias}.*: {copies} on the lake's cluster")
    _print_differences(running.name, found.differences)
    if found.mirror:
        _print_differences(found.mirror.name, found.mirror_differences)
    for note in found.notes:
        print(f"note: {note}")


def _print_differences(name: str, rows: Sequence[SettingDifference]) -> None:
    print(f"{name}: " + (f"{quantity(len(rows), 'setting')} other than ours" if rows else "nothing differs from ours"))
    for each in rows:
        print(f"  {each.weight:6} {each.setting}")
        print(f"         theirs: {_shorten(each.theirs)}")
        print(f"         ours:   {_shorten(each.ours)}")
        print(f"         {each.meaning}")


def _shorten(value: str | None) -> str:
    text = "not set" if value is None else value
    return text if len(text) <= 100 else f"{text[:97]}..."


def _print_next(found: Adoption, *, ours: bool) -> None:
    name = found.source.name
    print(f"written: {found.file}; connector {found.running.name} is as it was, and was not restarted")
    if ours:
        print(f"next: cdc apply {name}, which brings our settings and restarts the connector")
    print(f"next: cdc diff {name}; cdc reload; cdc status")
