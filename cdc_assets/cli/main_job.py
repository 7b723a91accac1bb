"""The end of `cdc up`: the main job on the sources that are declared, then where to look."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import typer
from rich.console import Console

from cdc_assets import settings
from cdc_assets.cli.progress import console, status
from cdc_assets.main_job.run import run_main_job
from cdc_assets.registry_files.loader import load_sources
from cdc_assets.stack.components.dagster import TOKEN
from cdc_assets.stack.examples.burst import burst
from cdc_assets.stack.home import Home
from cdc_assets.stack.state import HEALTHY, StackState

Stands = Callable[[Callable[[StackState], None]], None]


def run(stands: Stands) -> None:
    """Carry everything to silver and backup, print the counts and the URLs.

    Args:
        stands: waits for the components that still start, and shows their state to the function it is given.

    Raises:
        typer.Exit: 1 when a check failed; its finding is printed.
    """
    # What its runs write below CDC_HOME: Dagster's logs of them among it.
    os.umask(0o077)
    # dagster.yaml refers to the password of Dagster's own database by this variable.
    os.environ.setdefault("CDC_DAGSTER_DB_PASSWORD", Home(settings.home()).private("dagster_db_password"))
    examples = {"world", "bank"} & {source.name for source in load_sources(settings.sources_folder())}
    # The counts are data: to stdout, and as wide as they are where no terminal sets a width.
    tables = Console(width=None if sys.stdout.isatty() else 120)
    passed = run_main_job(
        console, status=status, tables=tables, burst=lambda: burst(examples), stands=lambda say: stands(_progress_report(say))
    )
    url = settings.address("CDC_DAGSTER_URL")
    # The webserver of the stack asks for its token, once a browser.
    token = settings.key(url)
    # Of a job of CI, and of a file, others read what is printed.
    carried = f"/?token={token}" if console.is_terminal else f"/?token=…, which is in {Home(settings.home()).private_file(TOKEN)}"
    console.print(f"Dagster   {url}" + (carried if token else ""), soft_wrap=True, markup=False)
    console.print(f"lake      {settings.lake()}")
    console.print("more      ./cdc status, ./cdc traffic --rate 50 --seconds 60, ./cdc down")
    if not passed:
        console.print("[red]a volumetry check failed; everything is left running: ./cdc status[/red]")
        raise typer.Exit(1)


def _progress_report(say: Callable[[str], None]) -> Callable[[StackState], None]:
    def report(state: StackState) -> None:
        if missing := [c.name for c in state.components if c.health != HEALTHY]:
            say(f"waiting for {', '.join(missing)}")

    return report
