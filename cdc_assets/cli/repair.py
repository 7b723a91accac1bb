"""`cdc repair mirror`: a mirrored topic after a loss."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from cdc_assets.cli.chosen_sources import chosen_sources

app = typer.Typer(no_args_is_help=True, help="Mend what a red check has named.")


@app.callback()
def _group() -> None:
    """A group even while it has one verb."""


@app.command("mirror")
def mirror(
    topic: Annotated[str, typer.Argument(help="The topic's name on the core cluster.")],
    snapshot: Annotated[bool, typer.Option(help="Read the table again, so that what is lost for good is mended.")] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")] = False,
    output: Annotated[str, typer.Option("--output", "-o", help="text or json")] = "text",
) -> None:
    """Copy a topic again and read its table again, as far as its findings ask for it; exit 1 while something is wrong."""
    from cdc_assets.mirroring.repair import plan, repair
    from cdc_assets.resources.platform import Platform

    platform = Platform()
    chosen = plan(platform, chosen_sources(), topic, snapshot=snapshot)
    state = chosen.state if dry_run else repair(platform, chosen, lambda text: print(text, file=sys.stderr))
    if output == "json":
        print(json.dumps({"steps": chosen.steps, "before": chosen.state.to_json(), "after": state.to_json()}, indent=2))
    else:
        for finding in chosen.state.findings:
            print(finding.message)
        for number, step in enumerate(chosen.steps, 1):
            print(f"{number} {step}")
        print(f"{topic}: {state.state}")
    if state.repair and not dry_run:
        raise typer.Exit(1)
