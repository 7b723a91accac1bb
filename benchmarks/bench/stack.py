"""Where `cdc bench` measures: on a stack of its own in a scratch folder, brought up as a user does, or on the one that runs."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.bench.errors import BenchError
from benchmarks.bench.example_sources import run_cdc
from benchmarks.bench.idle_cost import cpu_seconds
from cdc_assets.clients.source_chain import Say
from cdc_assets.registry import settings
from cdc_assets.stack.component_plan import EXTERNAL
from cdc_assets.stack.component_state import read_state
from cdc_assets.stack.components.spark_connect_server import NAME as SPARK
from cdc_assets.stack.home import Home, supervisor_pid

_OF_THE_SHELL = (*EXTERNAL, "CDC_POSTGRES_PORT", "CDC_SOURCES", "CDC_DEFINITIONS", "CDC_LAKE", "DAGSTER_HOME")


@dataclass(frozen=True)
class BenchStack:
    """A running stack: the pids of its supervisor and its Spark server, and where the bench's own tables go.

    `own`: it is the bench's, and removed afterwards.
    """

    home: Home
    supervisor: int
    spark: int
    own: bool = False

    def cpu(self) -> float:
        """CPU seconds of the Spark server and of this process so far."""
        return cpu_seconds(self.spark) + sum(os.times()[:2])


@contextmanager
def scratch_stack(say: Say) -> Iterator[BenchStack]:
    """A stack as `cdc up` leaves it, with a registry of its own that declares the example sources; stopped and removed
    afterwards."""
    with tempfile.TemporaryDirectory(prefix="cdc-bench-") as folder:
        home = Home(Path(folder) / "home")
        for name in _OF_THE_SHELL:
            os.environ.pop(name, None)
        os.environ["CDC_HOME"] = str(home.root)
        # Scenarios onboard tables and declare sources: the files that ship with us stay as they are.
        os.environ["CDC_SOURCES"] = str(shutil.copytree(settings.example_sources(), Path(folder) / "sources"))
        say(f"a stack of its own starts; if this is killed: CDC_HOME={home.root} ./cdc down --wipe --yes")
        try:
            run_cdc("up")
            yield replace(running_stack(), own=True)
        finally:
            run_cdc("down", "--wipe", "--yes")


def running_stack() -> BenchStack:
    """The stack of CDC_HOME.

    Raises:
        BenchError: none runs there, or its Spark is not its own.
    """
    home = Home(settings.home())
    supervisor, state = supervisor_pid(home), read_state(home)
    if not supervisor or state is None:
        raise BenchError(f"no stack runs in {home.root}: ./cdc up, or measure without --here on a stack of its own")
    spark = next((c.pid for c in state.components if c.name == SPARK), None)
    if not spark:
        raise BenchError(f"the stack in {home.root} has no Spark server of its own: ./cdc status; unset CDC_SPARK_REMOTE")
    return BenchStack(home, supervisor, spark)
