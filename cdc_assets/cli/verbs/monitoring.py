"""`cdc alerts` and `cdc metrics`: who is told what went red, and the figures of every chain for Prometheus."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from cdc_assets.cli.output_formats import Format, Output, print_rows
from cdc_assets.cli.verb_frame import verb
from cdc_assets.clients.platform import Platform
from cdc_assets.registry import settings


@verb()
def alerts(
    test: Annotated[bool, typer.Option("--test", help="Send each channel a message.")] = False, output: Output = Format.text
) -> None:
    """List the channels of CDC_ALERTS; exit 1 when one does not take a message."""
    from cdc_assets.deploy.alert_channels import VARIABLE, Alert, load_channels
    from cdc_assets.registry.errors import ServiceError, SettingError

    named = settings.lookup(VARIABLE)
    if not named:
        raise SettingError(f"{VARIABLE} names no file of channels: docs/how-to/alerts.md")
    message = Alert("green", "cdc alerts --test", "this is a test: nothing is wrong")
    rows, away = [], []
    for channel in load_channels(Path(named)):
        try:
            if test:
                channel.send([message])
            test_outcome = "sent" if test else ""
        except ServiceError as error:
            away.append(str(error))
            test_outcome = "failed"
        rows.append({"name": channel.name, "kind": type(channel).__name__.lower(), "test": test_outcome})
    print_rows(rows, output, narrow=["name", "kind", "test"] if test else ["name", "kind"])
    for reason in away:
        print(f"cdc: {reason}", file=sys.stderr)
    if away:
        raise typer.Exit(1)


@verb(lake=True)
def metrics(
    platform: Platform,
    port: Annotated[int, typer.Option(min=0, max=65535, help="On 127.0.0.1; 0: one that is free.")] = 9309,
    every: Annotated[float, typer.Option(min=0, help="Seconds for which figures are kept: scrapes meanwhile get the same.")] = 30,
    once: Annotated[bool, typer.Option("--once", help="Print the figures, and serve nothing.")] = False,
) -> None:
    """Serve lags, rows, events, checks and disks to Prometheus, until Ctrl-C."""
    from cdc_assets.deploy.prometheus_metrics import FigureCache, collect, exposition, serve
    from cdc_assets.registry.errors import SettingError

    cache = FigureCache(lambda: collect(platform), seconds=every)
    if once:
        print(exposition(cache), end="")
        return
    try:
        server, thread = serve(cache, port)
    except OSError as error:
        raise SettingError(f"127.0.0.1:{port} cannot be listened on: {error.strerror}; choose another: --port") from error
    print(f"http://127.0.0.1:{server.server_port}/metrics, until Ctrl-C", file=sys.stderr, flush=True)
    thread.join()
