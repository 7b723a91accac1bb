"""The `cdc` command: one file per verb, listed in `verbs.py` and loaded when it is called.

Messages for people go to stderr, data to stdout. A failure is one clear text and a non-zero exit.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_assets.cli.command_log import record_command
from cdc_assets.cli.guarded_terminal import guard_terminal
from cdc_assets.cli.interrupts import end_jobs_on_signals
from cdc_assets.cli.lazy_group import LazyGroup
from cdc_assets.errors import ON_PURPOSE
from cdc_assets.resources.expired import on_expired
from cdc_assets.shown_text import visible_lines

if TYPE_CHECKING:
    from cdc_assets.resources.platform import Platform
    from spark.errors import BronzeExpiredError

_HELP = """Carries databases into a lake, and shows that nothing is lost on the way.

Messages for people go to stderr, data to stdout. A failure is one clear text and a non-zero exit; CDC_DEBUG=1 shows the
stack trace as well.
"""
app = typer.Typer(
    name="cdc",
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=_HELP,
)


def _print_version(asked: bool) -> None:
    if asked:
        from cdc_assets.cli.version import software_version

        print(f"cdc {software_version()}")
        raise typer.Exit


@app.callback()
def cdc(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Options before the verb."""


def _bring_back(platform: Platform, error: BronzeExpiredError) -> bool:
    from cdc_assets.restore.past_records import bring_back_for_job

    return bring_back_for_job(platform, error)


def main() -> None:
    """Run the command line."""
    on_expired(_bring_back)
    guard_terminal()
    end_jobs_on_signals()
    try:
        with record_command(sys.argv[1:]):
            # By its name: started as `python -m` by the launcher, it would give the shell a completion for that.
            app(prog_name="cdc")
    except ON_PURPOSE as error:
        if os.environ.get("CDC_DEBUG"):
            raise
        print(visible_lines(f"cdc: {error}"), file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("cdc: interrupted, with its Spark jobs; what the stack runs keeps running: ./cdc status", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # `cdc logs kafka | head`: the reader has what it wanted.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
