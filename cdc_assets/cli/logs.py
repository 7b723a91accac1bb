"""`cdc logs COMPONENT`: its log, followed with -f over rotation."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from cdc_assets import settings
from cdc_assets.shown_text import visible_lines
from cdc_assets.stack.errors import StackError
from cdc_assets.stack.home import Home
from cdc_assets.stack.logs import tail


def logs(
    component: Annotated[str, typer.Argument(help="A name that `cdc status` shows, or supervisor.")],
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on as it grows.")] = False,
    lines: Annotated[int, typer.Option("-n", "--lines", help="How many of the last lines.")] = 50,
) -> None:
    """Print a component's log."""
    home = Home(settings.home())
    file = home.log(component)
    if not file.exists():
        known = ", ".join(sorted(path.stem for path in (home.root / "logs").glob("*.log"))) or "none yet"
        raise StackError("logs", f"no log of {component!r} in {home.root}; there are: {known}", "./cdc status")
    print(visible_lines("\n".join(tail(file, lines))))
    if not follow:
        return
    position = file.stat().st_size
    while True:
        size = file.stat().st_size
        if size < position:
            position = 0
        if size > position:
            with file.open("rb") as stream:
                stream.seek(position)
                sys.stdout.write(visible_lines(stream.read().decode("utf-8", "replace")))
                position = stream.tell()
            sys.stdout.flush()
        time.sleep(0.3)
