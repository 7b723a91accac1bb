"""`cdc metrics`: the figures of every chain for Prometheus."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cdc_assets import settings


def metrics(
    port: Annotated[int, typer.Option(min=0, max=65535, help="On 127.0.0.1; 0: one that is free.")] = 9309,
    every: Annotated[float, typer.Option(min=0, help="Seconds for which figures are kept: scrapes meanwhile get the same.")] = 30,
    once: Annotated[bool, typer.Option("--once", help="Print the figures, and serve nothing.")] = False,
) -> None:
    """Serve lags, rows, events, checks and disks to Prometheus, until Ctrl-C."""
    from cdc_assets.errors import MetricsError
    from cdc_assets.metrics.endpoint import FigureCache, exposition, serve
    from cdc_assets.metrics.figures import collect
    from cdc_assets.resources.platform import Platform

    settings.export_stack_environment()
    platform = Platform()
    cache = FigureCache(lambda: collect(platform), seconds=every)
    if once:
        print(exposition(cache), end="")
        return
    try:
        server, thread = serve(cache, port)
    except OSError as error:
        raise MetricsError(f"127.0.0.1:{port} cannot be listened on: {error.strerror}; choose another: --port") from error
    print(f"http://127.0.0.1:{server.server_port}/metrics, until Ctrl-C", file=sys.stderr, flush=True)
    thread.join()
