"""The life of one component: wait for what it needs, start, prove, watch, restart with back-off, give up.

Everything that blocks runs in threads; processes are only ever forked from the event loop's own thread, because a
child's parent-death signal is tied to the thread that forked it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Mapping

from cdc_assets.stack import state as health
from cdc_assets.stack.components.base import Component
from cdc_assets.stack.errors import NotReadyError, StackError
from cdc_assets.stack.identity import wrap
from cdc_assets.stack.logs import open_log, tail
from cdc_assets.stack.orphans import MARK
from cdc_assets.stack.state import ComponentState

# Given up after so many starts within the window; the pause doubles from start to start.
MAX_STARTS = 4
WINDOW = 300.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 20.0
_POLL_WHILE_STARTING = 0.25
# Probes that fail in a row before a live process is taken for hung and restarted.
_PATIENCE = 6


class _DiedError(Exception):
    """The process ended, or hangs."""


class Watched:
    """A component under supervision."""

    def __init__(self, component: Component, changed: Callable[[], None]) -> None:
        self.component = component
        self.state = ComponentState(component.name, component.address, str(component.log))
        self.healthy = asyncio.Event()
        self._changed = changed
        self._process: asyncio.subprocess.Process | None = None
        self._starts: deque[float] = deque()

    async def live(self, others: Mapping[str, Watched]) -> None:
        """Run until cancelled, or given up."""
        try:
            for name in self.component.needs:
                await others[name].healthy.wait()
            while True:
                self._starts.append(time.monotonic())
                try:
                    await self._start()
                    await self._watch()
                except (_DiedError, StackError, NotReadyError) as error:
                    await self._kill()
                    if not await self._again(error):
                        return
        except asyncio.CancelledError:
            raise
        except Exception as error:
            await self._kill()
            self._set(health.FAILED, f"{type(error).__name__}: {error}")
            raise

    async def _start(self) -> None:
        began = time.monotonic()
        self._set(health.STARTING, "preparing")
        await asyncio.to_thread(self.component.prepare)
        log = open_log(self.component.log)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *wrap(await asyncio.to_thread(self.component.command), self.component.identity),
                env={**await asyncio.to_thread(self.component.environment), MARK: str(self.component.site.home.root)},
                cwd=self.component.run,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Out of the terminal's process group: Ctrl-C is for the supervisor, which stops in order.
                start_new_session=True,
            )
        finally:
            os.close(log)
        self.state.pid = self._process.pid
        self._set(health.STARTING, "started, not answering yet")
        await self._until_ready(began + self.component.start_timeout)
        await self._ask(self.component.settle)
        self.state.started_in = round(time.monotonic() - began, 1)
        self.healthy.set()
        self._set(health.HEALTHY, "")

    @staticmethod
    async def _ask(question: Callable[[], None]) -> None:
        """A probe's answer; what it did not foresee is an answer as well."""
        try:
            await asyncio.to_thread(question)
        except (NotReadyError, StackError):
            raise
        except Exception as error:
            raise NotReadyError(f"{type(error).__name__}: {error}") from error

    async def _until_ready(self, deadline: float) -> None:
        while True:
            self._raise_if_dead()
            try:
                await self._ask(self.component.probe)
                return
            except NotReadyError as error:
                if time.monotonic() > deadline:
                    raise _DiedError(f"not ready after {self.component.start_timeout:.0f} s: {error}") from error
                self._set(health.STARTING, str(error))
            await self._exit_within(_POLL_WHILE_STARTING)

    async def _watch(self) -> None:
        failures = 0
        while True:
            await self._exit_within(self.component.probe_interval)
            self._raise_if_dead()
            try:
                await self._ask(self.component.probe)
            except NotReadyError as error:
                failures += 1
                self._raise_if_dead()
                self._set(health.UNHEALTHY, str(error))
                if failures >= _PATIENCE:
                    raise _DiedError(f"{failures} probes in a row failed: {error}") from error
            else:
                failures = 0
                self._set(health.HEALTHY, "")

    async def _exit_within(self, seconds: float) -> None:
        assert self._process
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._process.wait()), seconds)

    def _raise_if_dead(self) -> None:
        assert self._process
        code = self._process.returncode
        if code is None:
            return
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"
        last = next((line for line in reversed(tail(self.component.log, 30)) if line.strip()), "")
        raise _DiedError(f"{how}; last line: {last[:300]}")

    async def _again(self, error: Exception) -> bool:
        """Pause before the next start; False when given up."""
        self.healthy.clear()
        reason = error.reason if isinstance(error, StackError) else str(error)
        now = time.monotonic()
        while self._starts and now - self._starts[0] > WINDOW:
            self._starts.popleft()
        if len(self._starts) >= MAX_STARTS:
            self._set(health.FAILED, f"{len(self._starts)} starts failed, the last one: {reason}")
            return False
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (len(self._starts) - 1))
        self.state.restarts += 1
        self._set(health.BACKOFF, f"again in {pause:.1f} s: {reason}")
        await asyncio.sleep(pause)
        return True

    def forgive(self) -> None:
        """Forget the starts that have failed."""
        self._starts.clear()
        self._set(health.WAITING, "")

    async def stop(self, *, discard: bool = False) -> None:
        """End the process: politely first, unless its data is to be removed."""
        process = self._process
        if process and process.returncode is None:
            self._set(health.STOPPING, "")
            process.send_signal(self.component.discard_signal if discard else self.component.stop_signal)
            await self._exit_within(self.component.stop_timeout)
        await self._kill()
        self._set(health.STOPPED, "")

    async def _kill(self) -> None:
        self.healthy.clear()
        if self._process and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        self.state.pid = None

    def _set(self, value: str, detail: str) -> None:
        if self.state.health != value:
            self.state.since = time.time()
        if (self.state.health, self.state.detail) != (value, detail):
            self.state.health, self.state.detail = value, detail
            self._changed()
