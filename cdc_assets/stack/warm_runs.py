"""Dagster's code server, whose runs are forks of a process that has imported what they need.

Executed as `python -m cdc_assets.stack.warm_runs` with dagster's own arguments. Dagster starts a new interpreter for every run,
which imports everything anew: two of the four or five CPU seconds of a run that moves a handful of rows. Python's fork server
(multiprocessing, "forkserver") imports once, stays a process without threads of its own, and forks one child for each run.
Everything else of a run is Dagster's: how it is ended, watched and reported.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Sequence
from multiprocessing import forkserver
from types import SimpleNamespace
from typing import Any

PRELOADED = "cdc_assets.stack.run_preload"


def main(arguments: Sequence[str]) -> None:
    """dagster, with warm runs in the servers that it starts and in this one."""
    from dagster import _cli
    from dagster._grpc import server

    # Any: what is replaced below is no part of what Dagster promises.
    patched: Any = server
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([PRELOADED])
    patched.multiprocessing = SimpleNamespace(get_context=lambda _: context)
    load = server.DagsterApiServer.__init__

    def load_and_warm(self: server.DagsterApiServer, *arguments: Any, **named: Any) -> None:
        load(self, *arguments, **named)
        # Not before: it inherits the environment, in which the server's definitions note which registry they were made of.
        forkserver.ensure_running()

    patched.DagsterApiServer.__init__ = load_and_warm
    # A proxy (`dagster code-server`) starts its servers by this.
    patched.get_python_environment_entry_point = lambda python: [python, "-m", "cdc_assets.stack.warm_runs"]
    _cli.cli(list(arguments), prog_name="dagster", auto_envvar_prefix=_cli.ENV_PREFIX)


if __name__ == "__main__":
    main(sys.argv[1:])
