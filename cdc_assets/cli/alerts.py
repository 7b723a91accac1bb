"""`cdc alerts`: who is told what went red, and a message to try it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from cdc_assets import settings
from cdc_assets.cli.output_formats import Format, Output, print_rows


def alerts(
    test: Annotated[bool, typer.Option("--test", help="Send each channel a message.")] = False, output: Output = Format.text
) -> None:
    """List the channels of CDC_ALERTS; exit 1 when one does not take a message."""
    from cdc_assets.alerts.changes import Alert
    from cdc_assets.alerts.channels import VARIABLE, load_channels
    from cdc_assets.errors import AlertsError

    named = settings.lookup(VARIABLE)
    if not named:
        raise AlertsError(f"{VARIABLE} names no file of channels: docs/how-to/alerts.md")
    message = Alert("green", "cdc alerts --test", "this is a test: nothing is wrong")
    rows, away = [], []
    for channel in load_channels(Path(named)):
        try:
            if test:
                channel.send([message])
            said = "sent" if test else ""
        except AlertsError as error:
            away.append(str(error))
            said = "failed"
        rows.append({"name": channel.name, "kind": type(channel).__name__.lower(), "test": said})
    print_rows(rows, output, narrow=["name", "kind", "test"] if test else ["name", "kind"])
    for reason in away:
        print(f"cdc: {reason}", file=sys.stderr)
    if away:
        raise typer.Exit(1)
