"""Starts the supervisor detached, waits for it, stops it: what `cdc up` and `cdc down` do, and the tests' fixture.

Nothing here prints; progress goes to callbacks.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from cdc_assets import settings
from cdc_assets.stack import orphans, plan
from cdc_assets.stack.added_sources import adopt_sources
from cdc_assets.stack.components.base import allocator_variables
from cdc_assets.stack.errors import StackError
from cdc_assets.stack.holder import supervisor_pid
from cdc_assets.stack.home import Home
from cdc_assets.stack.jars import download, pyspark_jars
from cdc_assets.stack.jars.lockfile import Jar, read_lock
from cdc_assets.stack.jars.maven_mirror import repository
from cdc_assets.stack.java import share_classes
from cdc_assets.stack.logs import open_log, tail
from cdc_assets.stack.machine import is_busy
from cdc_assets.stack.short_socket import remove_short_folders
from cdc_assets.stack.state import HEALTHY, StackState, read_state

_POLL = 0.2


def missing_jars() -> list[Jar]:
    """What `fetch_jars` would download: not in the cache, nor in the pyspark wheel."""
    jars = read_lock().jars(plan.jar_sets())
    pyspark_jars.take(jars, download.cache_folder())
    return download.missing(jars, download.cache_folder())


def fetch_jars(jars: Iterable[Jar], progress: download.Progress | None = None) -> None:
    """Into the cache; see `download.download`."""
    download.download(jars, download.cache_folder(), repository=repository(read_lock().repository), progress=progress)


def start(home: Home, *, brokers: int | None = None, spark: str | None = None) -> bool:
    """A supervisor runs for this home afterwards; False when one did already.

    Raises:
        StackError: it runs with another kind of Spark than the one asked for; see `plan.choose`.
    """
    home.create()
    if pid := supervisor_pid(home):
        if spark and spark != (runs := plan.spark_of(home)):
            raise StackError("spark-connect", f"the stack runs with --spark {runs}", f"./cdc down, then ./cdc up --spark {spark}")
        adopt_sources(home, pid)
        _forgive(home, pid)
        return False
    orphans.end(home)
    plan.choose(home, brokers=brokers, spark=spark)
    share_classes()
    home.state.unlink(missing_ok=True)
    log = open_log(home.log("supervisor"))
    package_root = Path(__file__).parents[2]
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "cdc_assets.stack.supervisor", str(home.root)],
            cwd=package_root,
            env={**os.environ, **allocator_variables(), **settings.places_of_shell()},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    finally:
        os.close(log)
    # Two seconds where the machine has nothing else to do. One that has ended is told at once.
    deadline = time.monotonic() + 300
    while not (supervisor_pid(home) and read_state(home)):
        if process.poll() is not None or time.monotonic() > deadline:
            file = home.log("supervisor")
            last = (tail(file, 1) or ["it printed nothing"])[0]
            raise StackError("supervisor", f"did not start: {last}", "./cdc up", log=file)
        time.sleep(_POLL)
    return True


def _forgive(home: Home, pid: int) -> None:
    """Components that were given up get another try."""
    state = read_state(home)
    if state is None or not state.failed:
        return
    os.kill(pid, signal.SIGHUP)
    deadline = time.monotonic() + 5
    while (state := read_state(home)) and state.failed and time.monotonic() < deadline:
        time.sleep(_POLL)


def wait_healthy(
    home: Home, *, seen: Callable[[StackState], None], timeout: float = 480, without: Collection[str] = ()
) -> StackState:
    """Until every component, or all but the named ones, is healthy: on a busy machine for four times as long.

    Raises:
        StackError: naming the component that was given up, or is not ready in time, its reason and its log.
    """
    began = time.monotonic()
    while True:
        state = read_state(home)
        if state is None or not supervisor_pid(home):
            file = home.log("supervisor")
            last = (tail(file, 1) or ["it printed nothing"])[0]
            raise StackError("supervisor", f"ended: {last}", "./cdc up", log=file)
        seen(state)
        waited_for = [c for c in state.components if c.health != HEALTHY and c.name not in without]
        if not waited_for:
            return state
        culprit = state.failed
        waited = time.monotonic() - began
        if culprit is None and waited > timeout and (waited > 4 * timeout or not is_busy()):
            culprit = waited_for[0]
        if culprit:
            raise StackError(culprit.name, culprit.detail, f"./cdc logs {culprit.name}", log=Path(culprit.log))
        time.sleep(_POLL)


def stop(home: Home, *, seen: Callable[[StackState], None] = lambda _: None, timeout: float = 300, discard: bool = False) -> bool:
    """End the supervisor and with it everything; False when none ran.

    Args:
        seen: told each state on the way.
        timeout: seconds until the supervisor is killed.
        discard: the data is removed next, so nothing is flushed.
    """
    pid = supervisor_pid(home)
    if not pid:
        return False
    os.kill(pid, signal.SIGUSR1 if discard else signal.SIGTERM)
    deadline = time.monotonic() + timeout
    while supervisor_pid(home):
        if time.monotonic() > deadline:
            # Its children follow it: they die with their parent.
            os.kill(pid, signal.SIGKILL)
        if (state := read_state(home)) is not None:
            seen(state)
        time.sleep(_POLL)
    # It writes once more before it ends.
    if (state := read_state(home)) is not None:
        seen(state)
    return True


def wipe(home: Home) -> None:
    """Remove all local state.

    Raises:
        StackError: when the folder is not one that the stack has made.
    """
    if not home.root.exists():
        return
    if not home.config.exists() and any(home.root.iterdir()):
        reason = f"{home.root} holds files but no config.json: it is not a folder of this stack"
        raise StackError("down", reason, "remove it by hand, or set CDC_HOME")
    remove_short_folders(home)
    shutil.rmtree(home.root)
