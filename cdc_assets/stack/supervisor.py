"""The process that owns all others. `python -m cdc_assets.stack.supervisor CDC_HOME`, started detached by `cdc up`.

Holds a lock on supervisor.lock while it lives, so that there is one per home and a dead one leaves nothing stale.
SIGTERM stops every component, those first that need others; SIGHUP gives those that have
failed another try. Its own death by any means takes its children along.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cdc_assets.stack import orphans, plan
from cdc_assets.stack.declared_needs import lake_root, places_to_remember
from cdc_assets.stack.errors import NotReadyError, StackError
from cdc_assets.stack.home import Home, write_json
from cdc_assets.stack.lifecycle import Watched
from cdc_assets.stack.logs import rotate
from cdc_assets.stack.site import Site
from cdc_assets.stack.state import FAILED, StackState, write_state

_ROTATE_EVERY = 30.0
_HOLD_BUCKETS = ("s3", "gcs")


class Supervisor:
    """All components of one site."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.watched = {c.name: Watched(c, self._mark_dirty) for c in plan.components(site)}
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
        await asyncio.to_thread(orphans.end, self.site.home)
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
        write_json(home.stack, {"environment": {**environment, **self.site.external}, "keys": keys})

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
    orphans.end(home)
    await Supervisor(plan.load(home)).run()
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
