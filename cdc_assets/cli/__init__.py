"""The `cdc` command: one file per verb. Messages for people go to stderr, data to stdout.

A failure is one clear text and a non-zero exit; CDC_DEBUG=1 shows the stack trace as well.
"""

from __future__ import annotations

import os
import sys

import typer

from cdc_assets.cli import (
    connector_verbs,
    diff,
    down,
    env,
    get,
    ledger,
    logs,
    offsets,
    onboard,
    preflight,
    quarantine,
    reconcile,
    render,
    repair,
    status,
    traffic,
    up,
    validate,
    wait,
)
from cdc_assets.cli import test as test_verb
from cdc_assets.errors import CdcAssetsError

app = typer.Typer(name="cdc", no_args_is_help=True, add_completion=True, pretty_exceptions_enable=False, help=__doc__)
app.command("up")(up.up)
app.command("down")(down.down)
app.command("status")(status.status)
app.command("logs")(logs.logs)
app.command("traffic")(traffic.traffic)
app.command("wait")(wait.wait)
app.command("validate")(validate.validate)
app.command("env")(env.env)
app.command("preflight")(preflight.preflight)
app.command("diff")(diff.diff)
app.command("apply")(diff.apply)
app.command("reconcile")(reconcile.reconcile)
app.command("ledger")(ledger.ledger)
app.command("onboard")(onboard.onboard)
app.command("offboard")(onboard.offboard)
app.command("get")(get.get)
app.command("describe")(get.describe)
app.command("restart")(connector_verbs.restart)
app.command("pause")(connector_verbs.pause)
app.command("resume")(connector_verbs.resume)
app.command("stop")(connector_verbs.stop)
app.add_typer(offsets.app, name="offsets")
app.command("render")(render.render_verb)
app.add_typer(repair.app, name="repair")
app.add_typer(quarantine.app, name="quarantine")
app.command("test", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(test_verb.test)


def main() -> None:
    """Run the command line."""
    try:
        # By its name: started as `python -m` by the launcher, it would give the shell a completion for that.
        app(prog_name="cdc")
    except CdcAssetsError as error:
        if os.environ.get("CDC_DEBUG"):
            raise
        print(f"cdc: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("cdc: interrupted; what runs keeps running: ./cdc status", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # `cdc logs kafka | head`: the reader has what it wanted.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
