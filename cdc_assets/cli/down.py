"""`cdc down`: stop everything in order and keep the data; with --wipe remove it."""

from __future__ import annotations

from typing import Annotated

import typer

from cdc_assets import settings
from cdc_assets.cli.progress import Components, console
from cdc_assets.stack import start
from cdc_assets.stack.home import Home


def down(
    wipe: Annotated[bool, typer.Option("--wipe", help="Remove all local state as well: databases, topics, lake.")] = False,
) -> None:
    """Stop the stack."""
    home = Home(settings.home())
    with Components() as view:
        stopped = start.stop(home, seen=view.show, discard=wipe)
    console.print("stopped" if stopped else f"nothing was running in {home.root}")
    if wipe:
        start.wipe(home)
        console.print(f"removed {home.root}")
