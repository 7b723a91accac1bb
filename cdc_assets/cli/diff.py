"""`cdc diff` and `cdc apply`: connectors as the registry declares them."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cdc_assets.cli.chosen_sources import chosen_sources, complete_source
from cdc_assets.cli.rows import Format, Output, is_data, print_document
from cdc_assets.errors import CdcAssetsError
from cdc_assets.quantity import quantity
from cdc_assets.registry.models import CapturedSource, Source

Chosen = Annotated[list[str] | None, typer.Argument(help="Sources; default all.", autocompletion=complete_source)]


def diff(sources: Chosen = None, output: Output = Format.text) -> None:
    """Show what `cdc apply` would change; exit 1 when there is a difference, 2 when it would be refused."""
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
    """Bring the connectors to what is declared: validated by Connect, only differences, nothing foreign touched."""
    if dry_run:
        raise typer.Exit(2 if _preview(sources, output) == 2 else 0)
    from cdc_assets.assets.capturable import refuse_uncapturable
    from cdc_assets.connectors.apply import apply_connector
    from cdc_assets.connectors.capture import not_listed
    from cdc_assets.connectors.declared import declared_connectors
    from cdc_assets.incarnation.watch import refuse_other
    from cdc_assets.mirroring.watch import refuse_one_cluster
    from cdc_assets.resources.platform import Platform

    platform, done, failed = Platform(), [], False
    for declared in declared_connectors(chosen_sources(sources or ())):
        try:
            if isinstance(declared.source, Source) and declared.role == "capture":
                refuse_other(platform, declared.source)
                refuse_uncapturable(platform, declared.source)
            if declared.role == "mirror":
                refuse_one_cluster(platform.core_kafka(), platform.lake_kafka())
            connect, source = platform.connect(declared.cluster), declared.source
            captures = isinstance(source, CapturedSource) and declared.role == "capture"
            late = not_listed(source, connect.config(declared.name)) if captures and isinstance(source, CapturedSource) else ""
            applied = apply_connector(connect, declared.config, resume_offsets=resume_offsets)
        except CdcAssetsError as error:
            failed = True
            done.append({"connector": declared.name, "summary": "failed", "error": str(error)})
            print(f"cdc: {error}", file=sys.stderr)
            continue
        done.append({**applied.to_json(), "tables_to_onboard": late})
        if late:
            # A running connector takes no snapshot of what is added to its list.
            rows = f"cdc onboard {source.name} {late}"
            print(f"cdc: {applied.name}: only changes of {late} come from now on; for the rows too: {rows}", file=sys.stderr)
        if not is_data(output):
            changed = f" ({', '.join(applied.changed_keys)})" if applied.changed_keys else ""
            changed += f" (goes on from {quantity(applied.resumed_offsets, 'offset')})" if applied.resumed_offsets else ""
            tasks = quantity(len(applied.status.tasks), "task")
            print(f"{applied.name}: {applied.summary}{changed}, {applied.status.state}, {tasks}")
    if is_data(output):
        print_document(done, output)
    if failed:
        raise typer.Exit(1)


def _preview(sources: list[str] | None, output: str) -> int:
    from cdc_assets.connectors.declared import declared_connectors
    from cdc_assets.connectors.difference import difference
    from cdc_assets.resources.platform import Platform

    platform = Platform()
    found = [difference(platform.connect(d.cluster), d.config) for d in declared_connectors(chosen_sources(sources or ()))]
    if is_data(output):
        print_document([each.to_json() for each in found], output)
    else:
        for line in (line for each in found for line in each.lines()):
            print(line)
        if all(each.summary == "same" for each in found):
            print(f"{len(found)} connector(s) are as declared", file=sys.stderr)
    if any(each.summary == "refused" for each in found):
        return 2
    return 0 if all(each.summary == "same" for each in found) else 1
