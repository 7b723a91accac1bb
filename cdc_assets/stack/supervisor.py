"""The process that owns all others, and how `cdc up` and `cdc down` start it detached, wait for it and stop it.

Executed as `python -m cdc_assets.stack.supervisor CDC_HOME`. It holds a lock on supervisor.lock while it lives, so that there
is one per home and a dead one leaves nothing stale. SIGTERM stops every component, those first that need others; SIGHUP gives
those that have failed another try. Its own death by any means takes its children along. Starting prints nothing; progress
goes to callbacks.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cdc_assets.registry import settings
from cdc_assets.registry.durable_file import replace_json
from cdc_assets.stack import component_plan, processes
from cdc_assets.stack.component import Site, allocator_variables
from cdc_assets.stack.component_state import FAILED, HEALTHY, StackState, open_log, read_state, rotate, tail, write_state
from cdc_assets.stack.declared_needs import adopt_sources, lake_root, places_to_remember
from cdc_assets.stack.home import Home, remove_short_folders, supervisor_pid
from cdc_assets.stack.jars import locked_jars
from cdc_assets.stack.jars.locked_jars import Jar, read_lock, repository
from cdc_assets.stack.lifecycle import Watched
from cdc_assets.stack.processes import is_busy
from cdc_assets.stack.runtimes import share_classes
from cdc_assets.stack.stack_errors import NotReadyError, StackError

_POLL = 0.2


def missing_jars() -> list[Jar]:
    """What `fetch_jars` would download: not in the cache, nor in the pyspark wheel."""
    jars = read_lock().jars(component_plan.jar_sets())
    locked_jars.take_from_pyspark(jars, locked_jars.cache_folder())
    return locked_jars.missing(jars, locked_jars.cache_folder())


def fetch_jars(jars: Iterable[Jar], progress: locked_jars.Progress | None = None) -> None:
    """Into the cache; see `locked_jars.download`."""
    locked_jars.download(jars, locked_jars.cache_folder(), repository=repository(read_lock().repository), progress=progress)


def start(home: Home, *, brokers: int | None = None, spark: str | None = None) -> bool:
    """A supervisor runs for this home afterwards; False when one did already.
    Raises StackError: it runs with another kind of Spark than the one asked for; see `component_plan.choose`."""
    home.create()
    if pid := supervisor_pid(home):
        if spark and spark != (runs := component_plan.spark_of(home)):
            raise StackError("spark-connect", f"the stack runs with --spark {runs}", f"./cdc down, then ./cdc up --spark {spark}")
        adopt_sources(home, pid)
        _forgive(home, pid)
        return False
    processes.end_orphans(home)
    component_plan.choose(home, brokers=brokers, spark=spark)
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
    Raises StackError: naming the component that was given up, or is not ready in time, its reason and its log."""
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
    """Remove all local state. Raises StackError: when the folder is not one that the stack has made."""
    if not home.root.exists():
        return
    if not home.config.exists() and any(home.root.iterdir()):
        reason = f"{home.root} holds files but no config.json: it is not a folder of this stack"
        raise StackError("down", reason, "remove it by hand, or set CDC_HOME")
    remove_short_folders(home)
    shutil.rmtree(home.root)


_ROTATE_EVERY = 30.0
_HOLD_BUCKETS = ("s3", "gcs")


class Supervisor:
    """All components of one site."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.watched = {c.name: Watched(c, self._mark_dirty) for c in component_plan.components(site)}
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._dirty = asyncio.Event()
        self._discard = False
        self._settling: set[asyncio.Task[None]] = set()

    def _mark_dirty(self) -> None:
        self._dirty.set()

    async def run(self) -> None:
        """Until SIGTERM or SIGINT; SIGUSR1 ends it as well, with no regard for data that is removed next."""
        stop = asyncio.Event()

        def discard() -> None:
            self._discard = True
            stop.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, discard)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._again)
        self._write_addresses()
        for name in self.watched:
            self._live(name)
        chores = [asyncio.create_task(self._publish()), asyncio.create_task(self._rotate())]
        await stop.wait()
        for task in self._lives.values():
            task.cancel()
        await asyncio.gather(*self._lives.values(), return_exceptions=True)
        await self._stop_all()
        await asyncio.to_thread(processes.end_orphans, self.site.home)
        for task in chores:
            task.cancel()
        self._write_state()

    def _live(self, name: str) -> None:
        self._lives[name] = asyncio.create_task(self.watched[name].live(self.watched), name=name)

    def _again(self) -> None:
        """SIGHUP: one more try for those that were given up, and the buckets of sources that were declared meanwhile."""
        for name, watched in self.watched.items():
            if name in _HOLD_BUCKETS and watched.healthy.is_set():
                self._settling.add(task := asyncio.create_task(self._settle(watched)))
                task.add_done_callback(self._settling.discard)
            if watched.state.health == FAILED and self._lives[name].done():
                watched.forgive()
                self._live(name)

    async def _settle(self, watched: Watched) -> None:
        try:
            await asyncio.to_thread(watched.component.settle)
        except (NotReadyError, StackError) as error:
            # Its probes go on; a run that misses a bucket names it.
            print(f"{watched.component.name}: {error}", file=sys.stderr, flush=True)

    async def _stop_all(self) -> None:
        """Those that nobody running needs any more, again and again."""
        if self._discard:
            await asyncio.gather(*(watched.stop(discard=True) for watched in self.watched.values()))
            return
        left = dict(self.watched)
        while left:
            needed = {name for w in left.values() for name in w.component.needs}
            batch = [name for name in left if name not in needed] or list(left)
            await asyncio.gather(*(left[name].stop() for name in batch))
            for name in batch:
                del left[name]

    def _write_addresses(self) -> None:
        home = self.site.home
        environment = {"CDC_HOME": str(home.root), "CDC_LAKE": lake_root(home)}
        environment["CDC_CONNECT_SECRETS"] = str(home.secrets)
        environment |= places_to_remember(home)
        if "CDC_POSTGRES_HOST" in self.site.external and os.environ.get("CDC_POSTGRES_PORT"):
            environment["CDC_POSTGRES_PORT"] = os.environ["CDC_POSTGRES_PORT"]
        for watched in self.watched.values():
            environment.update(watched.component.addresses)
        keys = {address: str(file) for w in self.watched.values() for address, file in w.component.keys.items()}
        replace_json(home.stack, {"environment": {**environment, **self.site.external}, "keys": keys})

    async def _publish(self) -> None:
        while True:
            self._dirty.clear()
            self._write_state()
            await self._dirty.wait()
            # Probes of a start report several times a second.
            await asyncio.sleep(0.1)

    def _write_state(self) -> None:
        write_state(self.site.home, StackState(os.getpid(), tuple(w.state for w in self.watched.values())))

    async def _rotate(self) -> None:
        files = [*(w.component.log for w in self.watched.values()), self.site.home.log("supervisor")]
        while True:
            await asyncio.sleep(_ROTATE_EVERY)
            for file in files:
                await asyncio.to_thread(rotate, file)


async def _run(home: Home) -> None:
    # By default six threads on two CPUs: the probes of what is slow would hold up those of all others.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(64, thread_name_prefix="probe"))
    processes.end_orphans(home)
    await Supervisor(component_plan.load(home)).run()
    sys.stdout.flush()
    # At once: a probe that still waits in a thread for a component that is gone must not hold up `cdc down`.
    os._exit(0)


def _take(lock: int) -> bool:
    # `running` looks by taking a shared lock for a moment: that must not pass for another supervisor.
    for _ in range(20):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(0.05)
    return False


def main() -> None:
    """Take the lock, run, and exit 3 when another one has it."""
    os.umask(0o077)
    home = Home(Path(sys.argv[1])).create()
    with home.lock.open("a+", encoding="utf-8") as lock:
        if not _take(lock.fileno()):
            print("another supervisor holds", home.lock, file=sys.stderr)
            sys.exit(3)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        print(f"{time.strftime('%FT%TZ', time.gmtime())} supervisor {os.getpid()} of {home.root}", flush=True)
        asyncio.run(_run(home))


if __name__ == "__main__":
    main()
