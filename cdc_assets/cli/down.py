"""`cdc down`: stop everything in order and keep the data; with --wipe remove it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cdc_assets import settings
from cdc_assets.cli.progress import Components, console
from cdc_assets.stack import start
from cdc_assets.stack.home import Home


def down(
    wipe: Annotated[bool, typer.Option("--wipe", help="Remove all local state as well: databases, topics, lake.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="With --wipe: do not ask. Without a terminal nobody is asked.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be removed, and do nothing.")] = False,
) -> None:
    """Stop the stack."""
    home = Home(settings.home())
    if wipe and (dry_run or (sys.stdin.isatty() and not yes)):
        print(f"{home.root}: databases, topics, backups in the embedded stores, and {_tables(home)} Delta table(s)")
    if dry_run:
        return
    if wipe and not yes and sys.stdin.isatty():
        typer.confirm("Remove all of it? There is no way back.", abort=True)
    with Components() as view:
        stopped = start.stop(home, seen=view.show, discard=wipe)
    console.print("stopped" if stopped else f"nothing was running in {home.root}")
    if wipe:
        start.wipe(home)
        console.print(f"removed {home.root}")


def _tables(home: Home) -> int:
    return sum(1 for _ in home.lake.rglob("_delta_log"))
